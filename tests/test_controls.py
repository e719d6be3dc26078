"""Controls and rates: known laws, known answers, and the embedded real images."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import binom

from reconlib.controls import (
    Controls,
    compare,
    describe,
    noise_against_scale,
    noise_candidates,
)
from reconlib.data import DataNotFound, load_dataset, load_task
from reconlib.matching import judge
from reconlib.rates import operating_point, precision_at, precision_recall, proportion_interval, roc


@pytest.fixture(scope="module")
def task():
    return load_task("fashion_mnist_mini", "even_vs_odd_classes", per_class=50)


def noisy_truth(task, found=30, seed=0):
    """Candidates as an attack would give them: some training images with noise, the rest noise."""
    draw = torch.Generator().manual_seed(seed)
    candidates = 0.2 * torch.randn((2 * len(task.x), *task.mean.shape), generator=draw)
    candidates[:found] = task.x[:found] + 0.1 * candidates[:found]
    return candidates


def test_the_attack_is_told_from_every_control(task):
    result = compare(
        noisy_truth(task), task, others={"untrained": noise_candidates(200, task.mean.shape, 0.1, seed=5)}
    )
    assert set(result.controls) == {"held_out", "untrained", "noise"}
    assert result.attack.good >= 25
    assert result.controls["held_out"].good < result.attack.good / 2
    assert result.controls["untrained"].good == 0
    point = result.rate(0.05)
    assert point.false_positive_rate <= 0.05
    assert point.true_positive_interval[0] > point.false_positive_rate
    torch.testing.assert_close(
        result.controls["held_out"].ssim, judge(noisy_truth(task), task.x_held_out, task.mean).ssim
    )


def test_candidates_that_know_nothing_have_equal_rates(task):
    """Swapping members and held-out images is the null hypothesis: the intervals must cover it."""
    result = compare(noise_candidates(400, task.mean.shape, 0.3, seed=2), task)
    point = result.rate(0.1)
    low, high = point.true_positive_interval
    assert low <= point.false_positive_interval[1] and high >= point.false_positive_interval[0]


def test_summary_is_json_and_keeps_the_distribution(task):
    result = compare(noisy_truth(task), task)
    summary = json.loads(json.dumps(result.summary(), allow_nan=False))
    assert len(summary["attack"]["ssim"]) == len(task.x)
    assert sum(s > 0.4 for s in summary["attack"]["ssim"]) == summary["attack"]["good"] == result.attack.good
    assert [r["target"] for r in summary["rates"]] == [0.0, 0.01, 0.05]
    json.dumps(result.summary(by="distance"), allow_nan=False)
    short = result.summary(distributions=())
    assert "ssim" not in short["attack"] and short["attack"]["good"] == result.attack.good
    json.dumps(describe(judge(task.x[:0], task.x[:0], task.mean)), allow_nan=False)


def test_noise_plus_mean_is_no_blank_and_fades_with_the_noise(task):
    by_scale = noise_against_scale(task.x, task.mean, (1e-4, 0.3))
    quiet, loud = by_scale[1e-4].ssim.median(), by_scale[0.3].ssim.median()
    assert quiet > 0.1 > 0 and quiet > 2 * loud


def test_noise_plus_mean_passes_for_some_photographs():
    """The floor under every count: 0.3 to 0.4 without any reconstruction, by mean and stretching alone."""
    try:
        load_dataset("cifar10", download=False)
    except DataNotFound:
        pytest.skip("cifar10 is not in the data root; set RECONLIB_DATA to a folder that has it")
    photographs = load_task("cifar10", "vehicles_vs_animals", per_class=250)
    by_scale = noise_against_scale(photographs.x, photographs.mean, (1e-3, 0.3))
    assert by_scale[1e-3].best > 0.4 and (by_scale[1e-3].ssim > 0.3).double().mean() > 0.05
    assert by_scale[0.3].best < 0.2


def test_controls_are_complete(task):
    judged = judge(task.x, task.x, task.mean)
    with pytest.raises(ValueError, match="held_out"):
        Controls(judged, {"noise": judged})
    with pytest.raises(ValueError, match="held_out"):
        compare(task.x, task, others={"held_out": task.x})
    with pytest.raises(KeyError, match="attack, held_out"):
        Controls(judged, {"held_out": judged}).scores("unheard-of")


@pytest.mark.parametrize(("successes", "trials"), [(0, 20), (3, 20), (20, 20), (0, 0), (17, 500)])
def test_proportion_interval_inverts_the_binomial(successes, trials):
    low, high = proportion_interval(successes, trials)
    assert (
        low == 0 if successes == 0 else binom.sf(successes - 1, trials, low) == pytest.approx(0.025, abs=1e-9)
    )
    assert (
        high == 1
        if successes == trials
        else binom.cdf(successes, trials, high) == pytest.approx(0.025, abs=1e-9)
    )


def test_proportion_interval_covers_the_truth_often_enough():
    draw = np.random.default_rng(0)
    counts = draw.binomial(40, 0.1, size=2000)
    covered = np.mean([low <= 0.1 <= high for low, high in (proportion_interval(int(c), 40) for c in counts)])
    assert covered >= 0.95


@pytest.mark.parametrize("target", [0.0, 0.01, 0.05, 0.3])
def test_false_positive_interval_covers_the_rate_on_fresh_images(target):
    """Scores N(0,1): the true false-positive rate of the chosen threshold is known."""
    draw = np.random.default_rng(1)
    covered, within = 0, 0
    for _ in range(400):
        point = operating_point(draw.normal(1, 1, 50), draw.normal(size=200), target)
        true_rate = 0.5 * (1 - torch.erf(torch.tensor(point.threshold / 2**0.5)).item())
        covered += point.false_positive_interval[0] <= true_rate <= point.false_positive_interval[1]
        within += point.false_positive_rate <= target
    assert within == 400
    assert covered / 400 > 0.92


def test_operating_point_by_hand():
    point = operating_point([0.9, 0.5, 0.5, 0.1], [0.5, 0.3, 0.2, 0.1], 0.25)
    assert (point.threshold, point.true_positives, point.false_positive_rate) == (0.3, 3, 0.25)
    strict = operating_point([0.9, 0.5, 0.5, 0.1], [0.5, 0.3, 0.2, 0.1], 0.0)
    assert (strict.threshold, strict.true_positives, strict.false_positive_rate) == (0.5, 1, 0.0)
    unserved = operating_point([-0.1, -np.inf], [-np.inf, -np.inf], 0.0)
    assert unserved.true_positives == 1 and unserved.to_dict()["threshold"] is None
    with pytest.raises(ValueError, match="NaN"):
        operating_point([np.nan], [0.1])
    with pytest.raises(ValueError, match="non-empty"):
        operating_point([], [0.1])
    with pytest.raises(ValueError, match="lies in"):
        operating_point([0.1], [0.1], 1.0)


def test_roc_area_equals_the_share_of_ordered_pairs():
    draw = np.random.default_rng(2)
    inside, outside = draw.integers(0, 6, 30) + 1.0, draw.integers(0, 6, 40) * 1.0
    pairs = np.mean([(a > b) + 0.5 * (a == b) for a in inside for b in outside])
    curve = roc(inside, outside)
    assert curve.area == pytest.approx(pairs)
    assert (curve.x[0], curve.y[0], curve.x[-1], curve.y[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(curve.y, curve.x) == pytest.approx(pairs)


def test_precision_and_recall_by_hand():
    curve = precision_recall([0.9, 0.8, 0.8, 0.1], [True, True, False, True])
    assert curve.x.tolist() == pytest.approx([1 / 3, 2 / 3, 1])
    assert curve.y.tolist() == pytest.approx([1, 2 / 3, 3 / 4])
    assert curve.area == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert precision_at([0.9, 0.8, 0.1], [True, False, True], 2)["precision"] == 0.5
    assert precision_at([], [], 5) == {"k": 0, "true": 0, "precision": 0.0, "low": 0.0, "high": 1.0}
    with pytest.raises(ValueError, match="2 scores but 1"):
        precision_recall([0.1, 0.2], [True])
