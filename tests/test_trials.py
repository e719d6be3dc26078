"""Harder ways to train and attack a cell: each changes what it says; a search chooses blind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconlib.attack.defaults import DEFAULTS
from reconlib.experiments import Experiment, run
from reconlib.profiles import PUBLISHED, tiny
from reconlib.trials import DRAWN, drawn, longer_attack, longer_training, searched, ways

TWO = tiny(Experiment(per_class=5, hidden=(60, 60)))
TEN = tiny(Experiment(task="multiclass", per_class=2, hidden=(60, 60)))
DECAYED = replace(TWO, weight_decay=1e-3)
QUICK = replace(TWO, training={"steps": 300, "settle_steps": 100}, attack={"restarts": 1, "steps": 40})


@pytest.fixture(autouse=True, scope="module")
def folders(tmp_path_factory):
    """Runs of this file stay out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECONLIB_CACHE", str(tmp_path_factory.mktemp("runs")))
        yield


def settled(experiment):
    """Recipe of the training and settings of the attack."""
    model, training, attack = experiment.settings(experiment.data())
    return training.resolved(model.outputs), attack


@pytest.mark.parametrize(
    ("cell", "grown"),
    [
        (TWO, {"steps", "settle_steps"}),
        (DECAYED, {"steps", "settle_steps"}),
        (TEN, {"steps", "target_log_loss"}),
    ],
    ids=["margin", "stationary", "flow"],
)
def test_longer_training_changes_only_how_long(cell, grown):
    (before, attack), (after, same) = settled(cell), settled(longer_training(cell, 3))
    assert same == attack
    changed = {name for name in vars(before) if getattr(before, name) != getattr(after, name)}
    assert changed == grown
    assert all(getattr(after, name) == 3 * getattr(before, name) for name in grown)


def test_longer_attack_changes_only_its_steps():
    (training, before), (same, after) = settled(TEN), settled(longer_attack(TEN, 3))
    assert same == training
    assert after == replace(before, steps=3 * before.steps)


def test_ways_are_six_attacks_with_the_published_one_among_them():
    cells = ways(QUICK, longer=2, restarts=3, draws=1)
    assert cells["as in the figure"] == QUICK
    assert len(cells) == 6
    assert cells["more restarts"] == replace(QUICK, attack=QUICK.attack | {"restarts": 3})
    training, attack = settled(cells["published hyperparameters"])
    assert training == settled(QUICK)[0]
    assert (attack.steps, attack.restarts, attack.seed) == (80, 1, QUICK.seed)
    for name in ("rank", "whitening", "alpha", "optimiser", "rate", "multiplier_min", "start_scale"):
        assert getattr(attack, name) == getattr(DEFAULTS["paper"], name), name
    ten = replace(TEN, attack={"restarts": 1, "steps": 10})
    _, attack = settled(ways(ten, draws=1)["published hyperparameters"])
    assert attack.equation == "multiclass"
    assert attack.rate == PUBLISHED["multiclass"]["rate"]


def test_draws_stay_in_their_ranges_and_repeat():
    _, plain = settled(TWO)
    first = list(drawn(TWO, 20))
    assert first == list(drawn(TWO, 20)) != list(drawn(replace(TWO, seed=1), 20))
    for settings in first:
        for name, most in DRAWN.items():
            assert 1 / most <= settings[name] / getattr(plain, name) <= most
    assert len({settings["rate"] for settings in first}) == 20


def test_a_search_takes_the_smallest_residual():
    chosen = searched(QUICK, 3, share=0.5)
    options = [{}, *drawn(QUICK, 3)]
    short = [replace(QUICK, attack=QUICK.attack | o | {"steps": 20}) for o in options]
    residuals = [float(run(e, controls=()).found.residual.min()) for e in short]
    assert len(set(residuals)) == 4
    best = options[residuals.index(min(residuals))]
    assert chosen == replace(QUICK, attack=QUICK.attack | best)


def test_a_search_without_draws_is_refused():
    with pytest.raises(ValueError, match="at least one draw"):
        searched(QUICK, 0)
