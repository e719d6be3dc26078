"""What each profile makes of an experiment: seconds for a test, as it is, or as it was published."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from reconlib.attack.defaults import DEFAULTS
from reconlib.data.tasks import MULTICLASS
from reconlib.experiments import Experiment
from reconlib.losses import get_loss
from reconlib.text_notebooks import PROFILES

# The published random search's first run for each equation (σ_x, rates, λ_min, α).
PUBLISHED: dict[str, dict[str, Any]] = {
    "binary": {},  # DEFAULTS["paper"] itself
    "multiclass": {"start_scale": 3.61e-4, "rate": 2.42e-4, "multiplier_rate": 0.951, "multiplier_min": 0.040,
                   "alpha": (326.0, 326.0)},
    "general": {"start_scale": 1.97e-2, "rate": 0.952, "multiplier_rate": 1e-4, "alpha": (90.3, 90.3)},
}  # fmt: skip


def at_profile(experiment: Experiment, profile: str) -> Experiment:
    """The experiment as a profile runs it: tiny and on embedded images, as it is, or as published."""
    if profile not in PROFILES:
        raise ValueError(f"unknown profile {profile!r}; choose one of {', '.join(PROFILES)}")
    return {"smoke": tiny, "cpu": lambda same: same, "paper": published}[profile](experiment)


def tiny(experiment: Experiment) -> Experiment:
    """On the images that ship with the package, with narrow layers and one short attack: two seconds."""
    return replace(
        experiment,
        dataset="fashion_mnist_mini",
        task=MULTICLASS if experiment.task == MULTICLASS else "even_vs_odd_classes",
        hidden=tuple(min(width, 200) for width in experiment.hidden),
        attack={**(experiment.attack or {}), "restarts": 1, "steps": 600},
    )


def published(experiment: Experiment, epochs: int = 1_000_000, steps: int = 50_000) -> Experiment:
    """With the papers' training (full batch, constant rate, float64) and their attack, in pixels."""
    equation = "multiclass" if experiment.task == MULTICLASS else "binary"
    if experiment.loss is not None and not get_loss(experiment.loss).separable:
        equation = "general"
    attack = asdict(DEFAULTS["paper"]) | PUBLISHED[equation] | {"equation": equation, "steps": steps}
    for open_field in ("candidates", "seed"):  # twice the images, and the experiment's own
        del attack[open_field]
    training = {"trainer": "paper", "steps": epochs, "target_log_loss": None}
    return replace(experiment, training=training, attack=attack)
