"""Networks as an attacker is given them: trained to convergence on one part of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from reconlib.bilevel.classifier import Classifier, Training
from reconlib.bilevel.retrain import retrain
from reconlib.bilevel.starts import Parts


@dataclass(frozen=True, eq=False)
class Given:
    """Parameters θ* and the training problem that they solve; the images stay with the judge."""

    name: str
    training: Training
    theta: Tensor  # (p,)
    unknowns: int  # pixels of all training images

    @property
    def equations_per_unknown(self) -> float:
        """Parameters over pixels: below 1, other images than the training images must fit as well."""
        return self.training.classifier.parameters / self.unknowns


def given_networks(
    images: Parts, widths: Sequence[int], decay: float, seed: int = 0, sharpness: float = 3.0
) -> dict[str, Given]:
    """By name, one network for each number of hidden units, 0 being the affine one."""
    made = {}
    for width in widths:
        name = f"{width} hidden units" if width else "affine"
        classifier = Classifier(images.mean.numel(), int(images.y.max()) + 1, width, sharpness)
        training = Training(classifier, images.y, decay)
        theta = retrain(training, images.x.flatten(1), classifier.start(seed)).theta
        made[name] = Given(name, training, theta, images.x.numel())
    return made
