"""What is tried before a claim counts as not reproduced: harder ways to train and to attack the same cell.

Each way changes one thing and leaves the rest, so that a table of them says which one a count depends on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from reconlib.experiments import Experiment, run
from reconlib.profiles import published

# A random search draws each of these from a range, evenly in its logarithm, about the settings in use.
DRAWN = {"start_scale": 10.0, "rate": 4.0, "multiplier_rate": 4.0, "multiplier_min": 4.0}
ALPHAS = 3.0  # first and last α move by up to this factor, each by itself


def ways(
    experiment: Experiment, *, longer: int = 4, restarts: int = 5, draws: int = 8
) -> dict[str, Experiment]:
    """The cell as it is and as it can be tried harder, by name; the last one runs its draws to choose."""
    return {
        "as in the figure": experiment,
        "longer training": longer_training(experiment, longer),
        "longer attack": longer_attack(experiment, longer),
        "more restarts": _with(experiment, attack={"restarts": restarts}),
        "published hyperparameters": published_hyperparameters(experiment, longer),
        "a search": searched(experiment, draws),
    }


def longer_training(experiment: Experiment, times: int) -> Experiment:
    """`times` the steps; where training ends at a loss, `times` the decades below one."""
    model, training, _ = experiment.settings(experiment.data())
    recipe = training.resolved(model.outputs)
    changed: dict[str, Any] = {"steps": times * recipe.steps}
    if recipe.trainer in ("margin", "stationary"):
        changed["settle_steps"] = times * recipe.settle_steps
    if recipe.trainer == "flow":
        changed["target_log_loss"] = times * recipe.target_log_loss
    return _with(experiment, training=changed)


def longer_attack(experiment: Experiment, times: int) -> Experiment:
    """`times` the steps of each restart."""
    return _with(experiment, attack={"steps": times * _attack(experiment)["steps"]})


def published_hyperparameters(experiment: Experiment, times: int) -> Experiment:
    """The papers' attack, in pixels, for `times` the steps in use: fifty thousand are for a GPU."""
    here = _attack(experiment)
    changed = {"steps": times * here["steps"], "restarts": here["restarts"]}
    return replace(experiment, attack={**(published(experiment).attack or {}), **changed})


def searched(experiment: Experiment, draws: int, share: float = 0.25) -> Experiment:
    """The best of `draws` random settings and those in use, as an attacker can tell: by the residual.

    Every one of them gets a `share` of the steps, and one restart.
    """
    if draws < 1:
        raise ValueError(f"a search needs at least one draw, not {draws}")
    steps = max(1, round(share * _attack(experiment)["steps"]))
    tried = [{}, *drawn(experiment, draws)]

    def residual(settings: dict[str, Any]) -> float:
        short = _with(experiment, attack=settings | {"steps": steps, "restarts": 1})
        return float(run(short, controls=()).found.residual.min())

    return _with(experiment, attack=min(tried, key=residual))


def drawn(experiment: Experiment, draws: int) -> Iterator[dict[str, Any]]:
    """Random settings about the ones in use; the same for the same seed."""
    generator, plain = random.Random(experiment.seed), _attack(experiment)
    for _ in range(draws):
        settings = {name: plain[name] * _factor(generator, most) for name, most in DRAWN.items()}
        yield settings | {"alpha": tuple(a * _factor(generator, ALPHAS) for a in plain["alpha"])}


def _factor(generator: random.Random, most: float) -> float:
    return most ** generator.uniform(-1, 1)


def _attack(experiment: Experiment) -> dict[str, Any]:
    return asdict(experiment.settings(experiment.data())[2])


def _with(experiment: Experiment, **changed: dict[str, Any]) -> Experiment:
    merged: dict[str, Any] = {
        field: {**(getattr(experiment, field) or {}), **values} for field, values in changed.items()
    }
    return replace(experiment, **merged)
