"""The attack: receives a trained network and nothing else, returns candidates for its training images."""

from reconlib.attack.baselines import first_layer_rows, maximise_output
from reconlib.attack.check import ModelError, ModelReport, check_model
from reconlib.attack.defaults import DEFAULTS, default_settings
from reconlib.attack.differences import neuron_differences
from reconlib.attack.overview import Overview, overview
from reconlib.attack.reconstruct import reconstruct
from reconlib.attack.search import AttackDiverged
from reconlib.attack.settings import AttackSettings, Reconstruction

__all__ = [
    "DEFAULTS",
    "AttackDiverged",
    "AttackSettings",
    "ModelError",
    "ModelReport",
    "Overview",
    "Reconstruction",
    "check_model",
    "default_settings",
    "first_layer_rows",
    "maximise_output",
    "neuron_differences",
    "overview",
    "reconstruct",
]
