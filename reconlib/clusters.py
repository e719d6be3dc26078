"""Judging without the training set: candidates that several independent restarts agree on.

This is what an attacker can really do. Pooled candidates are linked when they come from *different* restarts
and lie within a radius; what one restart alone produced is not evidence. How much agreement is to be believed
is decided without the truth, by decoys: after the mean image is removed, a candidate resembles an unrelated
one and its negative equally often, so agreement with negated candidates shows what chance alone makes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reconlib.matching import GOOD, judge_each, normalise
from reconlib.rates import precision_at, precision_recall

_BLOCK = 8_000_000  # distances held at once: 32 MB in float32


@dataclass(frozen=True)
class Clusters:
    """k clusters, best first; nothing here was computed with the training set."""

    image: Tensor  # (k, C, H, W) mean of the members, in the candidates' coordinates
    score: Tensor  # (k,) Σ over the other restarts of 1 − distance/radius: size and tightness in one number
    runs: Tensor  # (k,) int64, how many restarts agree
    tightness: Tensor  # (k,) mean distance from the centre to the nearest member of each other restart
    size: Tensor  # (k,) int64, members
    false_rate: Tensor  # (k,) share of clusters down to this one that chance would make too, by decoys
    member: Tensor  # (m,) int64, the cluster each candidate belongs to, −1 for none
    radius: float
    restarts: int

    def __len__(self) -> int:
        return len(self.score)

    def accepted(self, false_rate: float = 0.1) -> Tensor:
        """(k,) bool: the clusters an attacker would believe."""
        return self.false_rate <= false_rate


def cluster(
    candidates: Tensor,
    run: Tensor,
    *,
    distance: str = "channel_half",
    radius: float | None = None,
    false_links: float = 0.2,
) -> Clusters:
    """Cluster candidates (m, C, H, W) of restarts `run` (m,) around the ones that most restarts confirm.

    `radius` in the units of the matching distance, or None: the largest at which decoys account for at most
    `false_links` of all links (loose on purpose: `false_rate` then tells which clusters to believe).
    """
    if len(run) != len(candidates):
        raise ValueError(f"{len(candidates)} candidates but {len(run)} entries in run")
    candidates, run = candidates.detach().cpu(), run.cpu()
    finite = candidates.flatten(1).isfinite().all(1).nonzero().squeeze(1)
    restarts = len(run[finite].unique())
    if restarts < 2:
        raise ValueError(f"agreement needs finite candidates of at least two restarts, got {restarts}")
    points = normalise(candidates[finite], distance)
    owner = run[finite].unique(return_inverse=True)[1]
    if radius is None:
        radius = decoy_radius(points, owner, false_links)
    found = _gather(points, owner, radius, sign=1)
    decoys = _gather(points, owner, radius, sign=-1)

    order = found.score.argsort(descending=True, stable=True)
    score = found.score[order]
    rank = torch.full((len(order) + 1,), -1)
    rank[order] = torch.arange(len(order))
    member = torch.full((len(candidates),), -1)
    member[finite] = rank[found.member]
    images = [candidates[member == k].mean(0) for k in range(len(order))]
    return Clusters(
        image=torch.stack(images) if images else candidates[:0],
        score=score,
        runs=found.runs[order],
        tightness=found.tightness[order],
        size=torch.bincount(member[member >= 0], minlength=len(order)),
        false_rate=_false_rate(score, decoys.score),
        member=member,
        radius=radius,
        restarts=restarts,
    )


def decoy_radius(points: Tensor, owner: Tensor, false_links: float = 0.2) -> float:
    """Largest radius at which (decoy links + 1) / links ≤ `false_links`; 0 when no radius achieves that.

    points (m, d) normalised candidates, owner (m,) their restart as 0, 1, …. A link is a candidate's nearest
    neighbour in one other restart; its decoy the nearest negated candidate of that restart.
    """
    true, decoy = [], []
    for block in torch.arange(len(points)).split(max(1, _BLOCK // max(1, len(points)))):
        product = points[block] @ points.T / points.shape[1]
        for r in owner.unique():
            # ‖a − b‖² and ‖a + b‖² of vectors of mean square 1: 2 − 2ab and 2 + 2ab.
            others = product[owner[block] != r][:, owner == r]
            true.append((2 - 2 * others.amax(1)).clamp_min(0).sqrt())
            decoy.append((2 + 2 * others.amin(1)).clamp_min(0).sqrt())
    links, decoys = torch.cat(true).sort().values, torch.cat(decoy).sort().values
    wrong = torch.searchsorted(decoys, links, right=True) + 1
    believed = (wrong <= false_links * torch.searchsorted(links, links, right=True)).nonzero()
    return float(links[believed.max()]) if len(believed) else 0.0


@dataclass(frozen=True)
class _Gathered:
    score: Tensor
    runs: Tensor
    tightness: Tensor
    member: Tensor


def _gather(points: Tensor, owner: Tensor, radius: float, sign: int) -> _Gathered:
    """Clusters around the best confirmed candidates; with sign −1 each confirms the *negative* of others."""
    m, restarts = len(points), int(owner.max()) + 1
    left, right, gap = _links(points, owner, radius, sign)
    scale = max(radius, 1e-12)  # with radius 0 only duplicates are linked, and count fully
    # (m, restarts): distance to the nearest candidate of each other restart within the radius, else inf.
    reach = torch.full((m * restarts,), torch.inf, dtype=gap.dtype)
    reach = reach.scatter_reduce(0, left * restarts + owner[right], gap, "amin").reshape(m, restarts)
    support = (1 - reach / scale).clamp_min(0).sum(1)

    member = torch.full((m,), -1)
    start = torch.searchsorted(left, torch.arange(m + 1))
    rows: list[tuple[float, int, float]] = []
    for i in support.argsort(descending=True, stable=True).tolist():
        near, apart = right[start[i] : start[i + 1]], gap[start[i] : start[i + 1]]
        # A candidate that went to a better cluster confirms nothing here.
        free = member[near] < 0
        if member[i] >= 0 or not free.any():
            continue
        near, apart = near[free], apart[free]
        member[near] = member[i] = len(rows)
        nearest = torch.stack([apart[owner[near] == r].min() for r in owner[near].unique()])
        rows.append((float((1 - nearest / scale).sum()), len(nearest) + 1, float(nearest.mean())))
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    score, runs, tightness = (torch.tensor(column) for column in columns)
    return _Gathered(score, runs.long(), tightness, member)


def _false_rate(score: Tensor, decoys: Tensor) -> Tensor:
    """For each cluster, best first, the smallest (decoys + 1) / clusters over all cuts that include it."""
    ordered = decoys.sort().values
    wrong = len(decoys) - torch.searchsorted(ordered, score) + 1
    share = (wrong / torch.arange(1, len(score) + 1)).clamp_max(1)
    return share.flip(0).cummin(0).values.flip(0) if len(score) else share


def _links(points: Tensor, owner: Tensor, radius: float, sign: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs of candidates of different restarts within the radius: i (sorted), j and ‖i − sign·j‖."""
    parts = []
    for block in torch.arange(len(points)).split(max(1, _BLOCK // max(1, len(points)))):
        squared = 2 - 2 * sign * (points[block] @ points.T) / points.shape[1]
        # A loose filter first: the product form loses digits near zero, and duplicates must not be lost.
        i, j = ((squared <= radius**2 + 1e-4) & (owner[block][:, None] != owner)).nonzero().unbind(1)
        gap = (points[block[i]] - sign * points[j]).square().mean(1).sqrt()
        near = gap <= radius
        parts.append((block[i[near]], j[near], gap[near]))
    left, right, gap = (torch.cat(column) for column in zip(*parts, strict=True))
    return left, right, gap


def against_truth(
    clusters: Clusters,
    x: Tensor,
    mean: Tensor,
    *,
    held_out: Tensor | None = None,
    ks: tuple[int, ...] = (10, 30, 100),
    threshold: float = GOOD,
) -> dict:
    """How far the attacker's ranking can be trusted: only the judge may call this.

    A cluster is true when its image reaches `threshold` with the training image it is nearest to;
    with `held_out` images the same is counted against those, as a control. JSON-ready.
    """
    score, nearest = judge_each(clusters.image, x, mean)
    true = score > threshold
    report = {
        "clusters": len(clusters),
        "restarts": clusters.restarts,
        "radius": clusters.radius,
        "true": int(true.sum()),
        "images_found": len(nearest[true].unique()),
        "precision_at": [precision_at(clusters.score, true, k) for k in ks],
        "score": [round(float(s), 4) for s in clusters.score],
        "ssim": [round(float(s), 4) for s in score],
        "false_rate": [round(float(r), 4) for r in clusters.false_rate],
        "average_precision": 0.0,
    }
    accepted = clusters.accepted()
    report["precision_accepted"] = precision_at(clusters.score[accepted], true[accepted], len(clusters))
    if held_out is not None:
        report["held_out"] = int((judge_each(clusters.image, held_out, mean)[0] > threshold).sum())
    if len(clusters):
        report["average_precision"] = precision_recall(clusters.score, true).area
    return report
