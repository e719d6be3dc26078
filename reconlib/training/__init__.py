"""Training to a stationary point, fast, with a certificate of how stationary the result is."""

from reconlib.training.certificate import Certificate, Residual
from reconlib.training.checkpoints import CheckpointError, load_trained, save_trained
from reconlib.training.run import train
from reconlib.training.settings import DivergenceError, Trained, TrainSettings

__all__ = [
    "Certificate",
    "CheckpointError",
    "DivergenceError",
    "Residual",
    "TrainSettings",
    "Trained",
    "load_trained",
    "save_trained",
    "train",
]
