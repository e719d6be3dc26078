"""Sweeps on real images: cells over seeds, counted with their control, taken over and recorded once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reconlib.attack import neuron_differences
from reconlib.attack.settings import AttackSettings
from reconlib.controls import compare, noise_candidates
from reconlib.experiments import ALL_CONTROLS, Experiment, run
from reconlib.matching import judge
from reconlib.profiles import at_profile, published, tiny
from reconlib.results import record
from reconlib.sweeps import METRICS, check_reconstructions, held_out_ratio, measure, point, spread, sweep
from reconlib.verdicts import claims_markdown

BASE = tiny(Experiment(per_class=5, hidden=(100, 100), weight_decay=1e-3))
DECAYS = (1e-3, 1e-2)


@pytest.fixture(autouse=True, scope="module")
def folders(tmp_path_factory):
    """Runs and results of this file stay out of the user's folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECONLIB_CACHE", str(tmp_path_factory.mktemp("runs")))
        patch.setenv("RECONLIB_RESULTS", str(tmp_path_factory.mktemp("results")))
        yield


@pytest.fixture(scope="module")
def result():
    return record("fig5_weight_decay", "smoke", {"seed": 0})


@pytest.fixture(scope="module")
def grid(result, folders):
    cells = {decay: replace(BASE, weight_decay=decay) for decay in DECAYS}
    seeds = {1e-3: [0, 1], 1e-2: [1]}
    return sweep(cells, axes=["decay"], seeds=lambda decay: seeds[decay], result=result, name="decays")


def test_points_are_the_outcomes_of_their_seeds(grid):
    assert [p.experiment.seed for p in grid[1e-3]] == [0, 1]
    outcome = run(grid[1e-2][0].experiment)
    assert outcome.cached == {"train": True, "attack": True}
    assert grid.values("good", 1e-2) == [outcome.good]
    assert grid.values("held_out_good", 1e-2) == [outcome.held_out_good]
    torch.testing.assert_close(grid[1e-2][0].ssim, outcome.controls.attack.ssim)
    assert grid[1e-2][0].top(3) == pytest.approx(float(outcome.controls.attack.ssim.topk(3).values.mean()))
    assert grid.mean("parameters", 1e-2) == sum(p.numel() for p in outcome.trained.network.parameters())


def test_seeds_give_different_networks(grid):
    first, second = grid[1e-3]
    assert not torch.equal(first.boundary.distance, second.boundary.distance)


def test_values_along_an_axis_are_those_of_common_seeds(grid):
    rows = grid.by_seed("best", DECAYS)
    assert list(rows) == [1]
    assert rows[1] == [grid.values("best", 1e-3)[1], grid.values("best", 1e-2)[0]]
    line = grid.series("best", "best")
    assert line.x == list(DECAYS)
    assert [len(values) for values in line.values] == [2, 1]


def test_best_is_by_the_mean(grid):
    assert grid.best("support") == max(grid.points, key=lambda key: grid.mean("support", key))
    assert grid.best("best", keys=[(1e-2,)]) == (1e-2,)


def test_every_number_is_recorded(grid, result):
    stored = result.to_dict()
    table = stored["tables"]["decays"]
    assert table["decay"] == [1e-3, 1e-3, 1e-2]
    assert table["seed"] == [0, 1, 1]
    assert set(METRICS) <= set(table)
    assert table["good"] == [p.good for p in grid]
    assert stored["controls"]["decays/0.01/seed 1"]["attack"]["good"] == table["good"][2]
    assert stored["provenance"]["data"] == {grid[1e-2][0].name: grid[1e-2][0].checksum}
    spent = sum(sum(p.seconds.values()) for p in grid)
    assert sum(stage["seconds"] for stage in stored["stages"].values()) == pytest.approx(spent, abs=0.1)


def test_earlier_points_are_taken_over_and_not_counted_again(grid, result, monkeypatch):
    asked = []
    monkeypatch.setattr("reconlib.sweeps.run", lambda e, **k: asked.append(e) or run(e, **k))
    cells = {"same": replace(BASE, weight_decay=1e-3), "other": replace(BASE, weight_decay=3e-3)}
    before = dict(result.to_dict()["stages"]["attack"])
    wider = sweep(
        cells, axes=["name"], seeds=[0], result=result, name="again", earlier=grid
    )  # fmt: skip
    assert asked == [cells["other"]]
    assert torch.equal(wider["same"][0].ssim, grid[1e-3][0].ssim)
    added = result.to_dict()["stages"]["attack"]["seconds"] - before["seconds"]
    assert added == pytest.approx(wider["other"][0].seconds["attack"], abs=0.02)


def test_markdown_has_a_row_per_cell_with_counts_and_controls(grid):
    header, _, *rows = grid.markdown("test_error").splitlines()
    assert [row.split(" | ")[0] for row in rows] == ["| 0.001", "| 0.01"]
    assert "held out above 0.4" in header and "test error" in header
    assert all(row.count("|") == header.count("|") for row in rows)


def test_spread_says_mean_and_range():
    assert spread([1, 2, 6]) == "3 (1 to 6)"
    assert spread([4]) == spread([4, 4]) == "4"
    assert spread([0.1, 0.3], "{:.0%}") == "20% (10% to 30%)"


def test_the_first_point_has_every_control_and_the_page_shows_them(grid, result):
    names = [set(p.summary["controls"]) for p in grid]
    assert names[0] == {"held_out", "noise", "differences_held_out", *ALL_CONTROLS}
    assert all(
        rest == {"held_out", "noise", "first_layer", "differences", "differences_held_out"}
        for rest in names[1:]
    )
    assert all(len(p.summary["attack"]["ssim"]) == p.n for p in grid)
    assert all(len(p.summary["controls"]["held_out"]["ssim"]) == p.n for p in grid)
    table = claims_markdown(result.to_dict())
    found = grid[1e-3][0].summary["controls"]["other_weights"]
    row = f"| an attack on a network trained on other images | training images | {found['n']} "
    assert f"{row}| {found['good']} | {found['best']:.2f} |" in table


def test_differences_of_neurons_stand_beside_the_search(grid, result):
    first = grid[1e-3][0]
    outcome = run(first.experiment)
    images = neuron_differences(outcome.trained.network).images
    inside, outside = (judge(images, x, outcome.task.mean) for x in (outcome.task.x, outcome.task.x_held_out))
    assert measure("differences", first) == inside.good
    assert measure("differences_best", first) == pytest.approx(inside.best)
    assert measure("differences_held_out", first) == outside.good
    assert METRICS["differences"].name in grid.markdown()
    assert "no search: differences of neurons | images never seen" in claims_markdown(result.to_dict())


def test_a_convolution_has_no_differences_and_its_table_no_column_for_them(tmp_path):
    small = replace(BASE, hidden=(30,), kernel=5, channels=2, attack={"steps": 5, "restarts": 1})
    with record("convolution", "smoke", {}, root=tmp_path) as result:
        grid = sweep({1: small}, axes=["cell"], seeds=[0], result=result, name="cells")
        assert "differences" not in result.to_dict()["tables"]["cells"]
    assert METRICS["differences"].name not in grid.markdown()


def test_another_network_never_saw_the_images():
    """Its candidates are those of the same attack on a network trained on images that overlap nothing."""
    here = replace(BASE, seed=5)
    elsewhere = replace(here, offset=2 * here.per_class)
    outcome = run(here, controls=["other_weights"])
    judged = compare(run(elsewhere).found.candidates, outcome.task, noise=False).attack
    torch.testing.assert_close(outcome.controls.controls["other_weights"].ssim, judged.ssim)
    own, other = outcome.task, elsewhere.data()
    shared = (own.x + own.mean).flatten(1)[:, None] == (other.x + other.mean).flatten(1)
    assert not shared.all(2).any()
    with pytest.raises(ValueError, match="unknown controls first; there are first_layer, differences, untr"):
        run(here, controls=["first"])


def test_unknown_names_are_answered_with_the_known_ones(grid, result):
    with pytest.raises(KeyError, match=r"unknown metric 'goood'; there are n, good"):
        measure("goood", grid[1e-2][0])
    with pytest.raises(KeyError, match=r"no cell \(0.5,\); there are \(0.001,\), \(0.01,\)"):
        grid[0.5]
    with pytest.raises(ValueError, match="one coordinate for each of classes, images"):
        sweep({2: BASE}, axes=["classes", "images"], seeds=[0], result=result, name="x")
    with pytest.raises(ValueError, match="no seeds"):
        sweep({2: BASE}, axes=["classes"], seeds=[], result=result, name="x")
    with pytest.raises(ValueError, match="smoke, cpu, paper"):
        at_profile(BASE, "quick")


def test_held_out_ratio_is_of_sums(grid):
    p = grid[1e-2][0]
    members = replace(p, ssim=torch.tensor([0.5, 0.6, 0.1]), held_out_ssim=torch.tensor([0.5, 0.1, 0.1]))
    assert held_out_ratio([members]) == 0.5
    assert held_out_ratio([members, replace(members, held_out_ssim=torch.zeros(3))]) == 0.25
    assert held_out_ratio([]) == 0.0


def test_check_passes_real_reconstructions_and_refuses_noise():
    # Forty images: with twenty, even a good attack passes only by luck.
    real = run(tiny(Experiment(per_class=20, hidden=(200, 200), weight_decay=1e-3)))
    assert "nearer than 95%" in check_reconstructions([point(real)])
    noise = noise_candidates(len(real.found.candidates), real.task.mean.shape, scale=0.1)
    chance = replace(real, controls=compare(noise, real.task))
    with pytest.raises(AssertionError, match="no better than chance"):
        check_reconstructions([point(chance)])


def test_profiles():
    ten = Experiment(task="multiclass", per_class=50)
    assert at_profile(ten, "cpu") == ten
    small = at_profile(ten, "smoke")
    assert (small.dataset, small.task, small.hidden) == ("fashion_mnist_mini", "multiclass", (200, 200))
    assert at_profile(Experiment(hidden=(50,)), "smoke").hidden == (50,)


@pytest.mark.parametrize(
    ("experiment", "equation", "rate"),
    [
        (Experiment(per_class=2), "binary", 0.555),
        (Experiment(task="multiclass", per_class=1), "multiclass", 2.42e-4),
        (Experiment(per_class=2, loss="squared", weight_decay=1e-3), "general", 0.952),
    ],
)
def test_published_protocol_runs_as_the_papers_state_it(experiment, equation, rate):
    """Full batch in float64 over pixels; the attack in pixels at the published rates; a few steps each."""
    small = replace(tiny(experiment), hidden=(20, 20))
    chosen = published(small, epochs=20, steps=5)
    task = chosen.data()
    _, training, attack = chosen.settings(task)
    recipe = training.resolved(task.outputs)
    assert (recipe.trainer, recipe.dtype, recipe.space) == ("paper", "float64", "pixels")
    assert recipe.lr == (0.5 if equation == "multiclass" else 0.01)
    assert isinstance(attack, AttackSettings)
    assert (attack.equation, attack.rate, attack.rank) == (equation, rate, None)
    assert (attack.optimiser, attack.schedule, attack.candidates) == ("sgd", "constant", 2 * len(task.x))
    assert len(run(chosen).found.candidates) == 2 * len(task.x)
    assert published(small).attack["steps"] == 50_000
