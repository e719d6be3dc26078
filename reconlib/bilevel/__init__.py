"""Reconstruction as a bilevel problem (Runkel et al. 2024), beside its KKT form.

    minimise over x  ½‖θ(x) − θ*‖²   where θ(x) minimises the training loss on x.

training = Training(Classifier(3072, 10), labels, decay=0.01)
target = retrain(training, images, training.classifier.start()).theta   # what the attacker is given
found = search("bilevel", training, target, start=noise)
"""

from reconlib.bilevel.classifier import Classifier, Training
from reconlib.bilevel.gradients import implicit, stationarity, unrolled
from reconlib.bilevel.retrain import NotConverged, Retrained, retrain
from reconlib.bilevel.search import FORMULATIONS, Found, parameter_distance, search

__all__ = [
    "FORMULATIONS",
    "Classifier",
    "Found",
    "NotConverged",
    "Retrained",
    "Training",
    "implicit",
    "parameter_distance",
    "retrain",
    "search",
    "stationarity",
    "unrolled",
]
