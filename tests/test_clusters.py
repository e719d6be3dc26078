"""Clustering without the truth: planted agreement is found, chance agreement is not."""

import inspect
import math

import pytest
import torch

from reconlib import clusters as module
from reconlib.clusters import against_truth, cluster, decoy_radius
from reconlib.data import load_task
from reconlib.matching import judge_each, normalise


@pytest.fixture(scope="module")
def task():
    return load_task("fashion_mnist_mini", "even_vs_odd_classes", per_class=50)


def pooled(task, found, restarts=4, m=150, noise=0.08, seed=0):
    """Restarts that each give `found` training images with their own noise, and mixtures of four images."""
    draw = torch.Generator().manual_seed(seed)
    sets = []
    for _ in range(restarts):
        weights = torch.zeros(m, len(task.x))
        for row in weights:
            row[torch.randperm(len(task.x), generator=draw)[:4]] = torch.randn(4, generator=draw).sign()
        part = (weights @ task.x.flatten(1)).reshape(m, *task.mean.shape) / 2
        part[:found] = task.x[:found]
        sets.append(part + noise * torch.randn(part.shape, generator=draw))
    return torch.cat(sets), torch.arange(restarts).repeat_interleave(m)


def test_planted_images_are_found_with_high_precision(task):
    candidates, run = pooled(task, found=30, noise=0.03)
    result = cluster(candidates, run)
    report = against_truth(result, task.x, task.mean, held_out=task.x_held_out)
    assert report["images_found"] >= 25
    assert report["held_out"] < report["true"] / 2
    assert report["precision_at"][1]["precision"] >= 0.9
    assert report["precision_accepted"]["k"] >= 25 and report["precision_accepted"]["precision"] >= 0.85
    assert (result.score.diff() <= 0).all()
    assert result.runs.max() == 4 and result.size.sum() == (result.member >= 0).sum()


def test_restarts_that_share_nothing_give_next_to_no_clusters(task):
    results = [cluster(*pooled(task, found=0, seed=seed)) for seed in range(5)]
    assert sum(int(r.accepted().sum()) for r in results) <= 2  # of 5 × 600 candidates


def test_agreement_within_one_restart_is_no_evidence(task):
    candidates, run = pooled(task, found=0, restarts=2)
    candidates[:20] = task.x[0]
    assert (cluster(candidates, run, radius=0.3).member[:20] == -1).all()


def test_more_restarts_raise_the_score(task):
    few, many = (cluster(*pooled(task, found=30, restarts=r), radius=0.5) for r in (2, 4))
    assert many.score[:20].mean() > few.score[:20].mean()
    assert few.runs.max() == 2


def oracle_links(points, owner, radius):
    pairs = set()
    for i in range(len(points)):
        for j in range(len(points)):
            gap = math.sqrt(float((points[i] - points[j]).square().mean()))
            if owner[i] != owner[j] and gap <= radius:
                pairs.add((i, j))
    return pairs


@pytest.mark.parametrize("block", [100, 8_000_000])
def test_links_and_radius_equal_the_double_loop(task, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    candidates, run = pooled(task, found=8, restarts=3, m=15)
    points = normalise(candidates.double())
    i, j, _ = module._links(points, run, 0.6)
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == oracle_links(points, run, 0.6) != set()

    links, decoys = [], []
    for a, owner in zip(points, run, strict=True):
        for other in set(run.tolist()) - {int(owner)}:
            theirs = points[run == other]
            links.append(min(math.sqrt(float((a - b).square().mean())) for b in theirs))
            decoys.append(min(math.sqrt(float((a + b).square().mean())) for b in theirs))
    allowed = [r for r in links if sum(d <= r for d in decoys) + 1 <= 0.2 * sum(k <= r for k in links)]
    assert decoy_radius(points, run, 0.2) == pytest.approx(max(allowed), abs=1e-7)


def test_false_rate_by_hand():
    rate = module._false_rate(torch.tensor([5.0, 4.0, 3.0, 2.0]), torch.tensor([2.5, 4.5]))
    # Decoys at least as good: 0, 1, 1, 2; plus one, over 1, 2, 3, 4 clusters; then the best of deeper cuts.
    assert rate.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 3 / 4])
    assert module._false_rate(torch.zeros(0), torch.zeros(3)).shape == (0,)


def test_identical_candidates_of_two_restarts_are_linked_at_radius_zero(task):
    candidates = torch.cat([task.x[:5], task.x[:5]])
    result = cluster(candidates, torch.arange(2).repeat_interleave(5), radius=0.0)
    assert len(result) == 5 and result.tightness.max() == 0 and result.score.min() == 1


def test_double_precision_gives_the_same_clusters(task):
    candidates, run = pooled(task, found=10, restarts=3, m=40)
    single, double = cluster(candidates, run, radius=0.4), cluster(candidates.double(), run, radius=0.4)
    assert single.member.tolist() == double.member.tolist()


def test_diverged_candidates_are_left_out(task):
    candidates, run = pooled(task, found=10, restarts=3, m=40)
    candidates[3] = torch.nan
    result = cluster(candidates, run, radius=0.4)
    assert result.member[3] == -1 and result.image.isfinite().all()
    candidates[40:] = torch.inf
    with pytest.raises(ValueError, match="finite candidates of at least two restarts, got 1"):
        cluster(candidates, run)


def test_the_attacker_side_has_no_access_to_the_truth():
    assert set(inspect.signature(cluster).parameters) == {
        "candidates",
        "run",
        "distance",
        "radius",
        "false_links",
    }


def test_judge_each_scores_every_candidate_by_itself(task):
    score, nearest = judge_each(torch.cat([task.x[3:5], task.x[3:5]]), task.x, task.mean)
    assert nearest.tolist() == [3, 4, 3, 4]
    torch.testing.assert_close(score[:2], score[2:])


def test_no_clusters_and_wrong_arguments(task):
    empty = cluster(*pooled(task, found=0, restarts=2, m=20), radius=0.0)
    report = against_truth(empty, task.x, task.mean)
    assert report["clusters"] == report["true"] == report["images_found"] == 0
    with pytest.raises(ValueError, match="two restarts"):
        cluster(task.x, torch.zeros(len(task.x), dtype=torch.int64))
    with pytest.raises(ValueError, match="entries in run"):
        cluster(task.x, torch.zeros(3))
