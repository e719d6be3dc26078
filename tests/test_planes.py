"""The plane: a task with a known geometry, a path that ends where the attack ends, points that come back."""

from __future__ import annotations

import math
import re

import pytest
import torch

from reconlib.attack import AttackSettings, reconstruct
from reconlib.models import ModelSettings, Network
from reconlib.planes import circle, closeness, follow, nearest, reached, spacing, stepped
from reconlib.training import TrainSettings, train

ATTACK = AttackSettings(
    candidates=24, steps=60, start_scale=1.0, rank=None, spread=0.0, whitening=0.0, range_weight=0.0
)


@pytest.fixture(scope="module")
def network() -> Network:
    model = ModelSettings((2,), 1, (60, 60), first_layer_scale=0.4)
    settings = TrainSettings(trainer="margin", lr=1e-4, settle_steps=300)
    return train(model, circle(6), settings, progress=False).network


@pytest.mark.parametrize("n", [4, 10, 20])
def test_circle(n: int) -> None:
    task = circle(n)
    assert torch.allclose(task.x.norm(dim=1), torch.ones(n))
    assert spacing(task.x) == pytest.approx(2 * math.sin(math.pi / n), rel=1e-6)
    assert task.y.double().mean() == 0.5
    around = task.x[:, 1].atan2(task.x[:, 0]).remainder(2 * math.pi - 1e-4).argsort()
    assert (task.y[around].diff() != 0).all(), "labels take turns"
    # A held-out point is as far from the training points as the circle allows.
    assert torch.allclose(
        nearest(task.x_held_out, task.x), torch.full((n,), 2 * math.sin(math.pi / n / 2)).double()
    )
    assert re.fullmatch("[0-9a-f]{64}", task.checksum)
    assert task.checksum != circle(n + 2).checksum


@pytest.mark.parametrize("n", [2, 7])
def test_circle_says_what_it_needs(n: int) -> None:
    with pytest.raises(ValueError, match="even and at least 4"):
        circle(n)


def test_reached_by_hand() -> None:
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    candidates = torch.tensor([[0.0, 0.05], [1.2, 0.0]])
    assert nearest(points, candidates).tolist() == pytest.approx([0.05, 0.2, math.hypot(3.8, 5)])
    assert reached(points, candidates, 0.1).tolist() == [True, False, False]


def test_path_ends_where_the_attack_ends(network: Network) -> None:
    path = follow(network, ATTACK, [10, 30])
    found = reconstruct(network, ATTACK, progress=False)
    assert path.steps == (0, 10, 30, 60)
    assert torch.equal(path.end, found.candidates)
    assert torch.equal(path.labels, found.labels)
    assert torch.allclose(path.multipliers, found.multipliers)
    assert path.residual == pytest.approx(float(found.residual[0]))
    moved = path.candidates.diff(dim=0).norm(dim=2).mean(1)
    assert (moved > 0).all()


def test_path_refuses_steps_beyond_the_end(network: Network) -> None:
    with pytest.raises(ValueError, match="60 steps, so there is no step 61"):
        follow(network, ATTACK, [61])


def test_training_points_come_back_and_others_do_not() -> None:
    task = circle(8)
    model = ModelSettings((2,), 1, (200, 200), first_layer_scale=0.4)
    settings = TrainSettings(trainer="margin", lr=1e-4, settle_steps=600)
    trained = train(model, task, settings, progress=False).network
    attack = AttackSettings(
        candidates=40, steps=1500, start_scale=1.0, rank=None, spread=0.0, whitening=0.0, range_weight=0.0
    )
    path, untrained = follow(trained, attack), follow(Network(model), attack)
    radius = spacing(task.x) / 10
    assert reached(task.x, path.end, radius).double().mean() >= 0.75
    assert not reached(task.x_held_out, path.end, radius).any()
    assert reached(task.x, untrained.end, radius).double().mean() <= 0.25


def test_pictures_say_what_they_show(network: Network) -> None:
    task = circle(6)
    path = follow(network, ATTACK, [30])
    picture = stepped(path, task, network)
    assert picture.data.startswith(b"\x89PNG")
    for step in ("start", "step 30", "step 60"):
        assert f"{step}: " in picture.alt
    close = closeness({"to points": nearest(path.end, task.x)}, mark=0.1, x_label="distance")
    share = float((nearest(path.end, task.x) <= 0.1).double().mean())
    assert f"to points: {share:.0%} within 0.1" in close.alt
