"""Grids of convolutional networks: the judge's bound, the ratios behind the claims, the explanations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reconlib import convolutions
from reconlib.convolutions import BOUND, convolution, explain, explained, totals
from reconlib.experiments import run
from reconlib.profiles import tiny
from reconlib.results import record
from reconlib.sweeps import Sweep, sweep


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECONLIB_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def grid(folders):
    result = record("fig15_cnn_ablations", "smoke", {"seed": 0})
    small = replace(tiny(convolution(images=4, hidden=10)), training={"steps": 60, "settle_steps": 20})
    small = replace(small, attack={"steps": 30, "restarts": 1, "candidates": 60})
    cells = {(k, c): replace(small, kernel=k, channels=c) for k in (3, 14, 28) for c in (2, 4)}
    axes = ["kernel", "channels"]
    return sweep(cells, axes=axes, seeds=[0], result=result, name="grid", bound=BOUND)


def counted(grid, counts):
    """The grid with these numbers of images above 0.4, cell by cell."""
    points = {}
    for (key, (p,)), good in zip(grid.points.items(), counts, strict=True):
        ssim = torch.zeros(10)
        ssim[:good] = 0.5
        points[key] = (replace(p, ssim=ssim, held_out_ssim=torch.zeros(10)),)
    return Sweep(grid.axes, points)


def test_the_paper_s_network():
    conv = convolution(5, 16, steps=7)
    assert (conv.per_class, conv.hidden, conv.kernel, conv.channels) == (250, (1000,), 5, 16)
    assert conv.weight_decay == 1e-3
    assert conv.attack == {"steps": 7}


def test_cells_are_judged_with_the_wider_bound(grid):
    (p,) = grid[14, 4]
    wide, narrow = run(p.experiment, bound=BOUND), run(p.experiment)
    assert not torch.equal(wide.controls.attack.votes, narrow.controls.attack.votes)
    torch.testing.assert_close(p.ssim, wide.controls.attack.ssim)
    torch.testing.assert_close(p.held_out_ssim, wide.controls.controls["held_out"].ssim)


def test_features_and_pixels_are_those_of_the_network(grid):
    (p,) = grid[14, 4]
    network = run(p.experiment, bound=BOUND).trained.network
    assert convolutions.features(p) == network.layers[1].in_features
    assert convolutions.pixels(p) == 28 * 28
    assert explain("features per pixel", p) == 4 * 15 * 15 / 784
    assert explain("parameters per unknown", p) == p.parameters / (784 * p.n)
    with pytest.raises(KeyError, match="features per pixel"):
        explain("the weather", p)
    dense = replace(p, experiment=replace(p.experiment, kernel=None, channels=None))
    with pytest.raises(ValueError, match="no convolution"):
        convolutions.features(dense)


def test_the_rank_behind_the_convolution_is_that_of_its_weights(grid, monkeypatch):
    (p,) = grid[14, 4]
    outcome = run(p.experiment, bound=BOUND)
    weight = outcome.trained.network.layers[1].weight
    values = torch.linalg.svdvals(weight.detach().double())
    assert convolutions.hidden_rank(p) == int((values > 0.01 * values[0]).sum()) > 1
    with torch.no_grad():
        weight.copy_(torch.outer(torch.arange(len(weight)) + 1.0, weight[0]))
    monkeypatch.setattr(convolutions, "run", lambda *_, **__: outcome)
    assert convolutions.hidden_rank(p) == 1 == explain("rank of the layer behind", p)
    kernels = outcome.trained.network.layers[0].weight
    values = torch.linalg.svdvals(kernels.detach().double().flatten(1))
    rank = int((values > 0.01 * values[0]).sum())
    assert convolutions.kernel_rank(p) == rank == explain("rank of the kernels", p)
    held = rank * (14 * 14 + 15 * 15 * 1)  # a patch for each direction, and one sum over 15 by 15 places
    assert convolutions.numbers_held(p) == held
    assert explain("numbers held per unknown", p) == held / (28 * 28 * p.n)


def test_counts_that_follow_the_features(grid):
    # (3, 2), (3, 4), (14, 2), (14, 4), (28, 2), (28, 4): features fall from left to right but for channels.
    found = explained(counted(grid, [5, 6, 3, 4, 1, 2]))
    assert found["features per pixel"] == pytest.approx(1.0)
    assert set(found) == set(convolutions.EXPLANATIONS)
    # By another metric than the count, which these points do not share.
    areas = [replace(p, area=1 - explain("features per pixel", p) / 1e3) for p in counted(grid, [1] * 6)]
    assert explained(areas, "area")["features per pixel"] == pytest.approx(-1.0)
    assert explained(areas)["features per pixel"] == 0


def test_totals_and_ratios(grid):
    shaped = counted(grid, [2, 6, 0, 1, 3, 5])
    counts = totals(shaped, 0)
    assert counts == {3: 8, 14: 1, 28: 8}
    assert convolutions.middle_ratio(counts) == 1 / 8
    assert convolutions.full_ratio(counts) == 8
    assert convolutions.collapse(counts) == 14
    assert convolutions.channel_trend(shaped, 0) == pytest.approx(1.0)
    assert convolutions.channel_trend(counted(grid, [6, 2, 1, 0, 5, 5]), 0) == pytest.approx(-2 / 3)


def test_from_nothing_nothing_falls():
    """Zero over zero must not pass for a collapse."""
    assert convolutions.middle_ratio({3: 0, 15: 0, 32: 4}) == 1.0
    assert convolutions.collapse({3: 0, 15: 0, 32: 4}) is None
    assert convolutions.collapse({3: 4, 15: 2, 32: 4}) is None
    with pytest.raises(ValueError, match="no kernel from 10 to 25"):
        convolutions.middle_ratio({3: 1, 32: 1})
