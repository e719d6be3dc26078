"""What an adversary can tell without the training set: scores of pooled candidates, and how far they carry.

A score is computed from the pool alone and is larger for what should be a member. The judge then says which
candidates are members, and an ROC says how well a score would have known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from reconlib.attack import Reconstruction
from reconlib.bilevel import Found
from reconlib.bilevel.landscape import explains
from reconlib.bilevel.starts import Parts, mixture, noise
from reconlib.matching import GOOD, assign, judge_each, normalise
from reconlib.rates import OperatingPoint, operating_point, roc

BLIND = ("residual", "multiplier", "agreement")  # what every adversary has
KNOWS_START = ("stayed", "agreement gained")  # with the starts of the searches beside their ends


@dataclass(frozen=True)
class Pool:
    """m candidates of several searches, their scores, and what only the judge knows of them."""

    scores: Mapping[str, NDArray]  # each (m,)
    member: NDArray  # (m,) bool: above SSIM 0.4 with the image it is nearest to, which was trained on
    look_alike: NDArray  # (m,) bool: the same with an image that was not trained on
    image: NDArray  # (m,) int: the nearest image of both sets
    began: NDArray  # (m,) bool: the start was nearest to an image that was trained on

    def compared(self, look_alikes: bool = True) -> NDArray:
        """(m,) bool: members and look-alikes, or all candidates."""
        return self.member | self.look_alike if look_alikes else np.ones_like(self.member)


def mixed_starts(images: Parts, truth: float, members: float, seed: int) -> Tensor:
    """Starts (n, C, H, W): by lot, so many `members` of n are training images, the others of another part.

    Each keeps its label, and has 1 − `truth` of noise mixed in.
    """
    n = len(images.x)
    lot = torch.randperm(n, generator=torch.Generator().manual_seed(seed)) < round(members * n)
    return mixture(torch.where(lot[:, None, None, None], images.x, images.other), noise(images, seed), truth)


def agreement(candidates: Tensor, run: Tensor) -> Tensor:
    """(m,) minus the mean, over the other runs, of the matching distance to the nearest candidate there."""
    runs = run.unique()
    if len(runs) < 2:
        raise ValueError(f"agreement needs candidates of at least two runs, got {len(runs)}")
    points = normalise(candidates.float())
    apart = torch.stack([torch.cdist(points, points[run == r]).amin(1) for r in runs], 1)
    apart = apart / points.shape[1] ** 0.5
    apart[run[:, None] == runs] = 0.0
    return -apart.sum(1) / (len(runs) - 1)


def pool_searches(found: Sequence[Found], images: Parts) -> Pool:
    """The ends of searches on one small network, as candidates."""
    n = len(images.x)
    ends, starts = (torch.cat([getattr(f, name) for f in found]) for name in ("images", "start"))
    run = torch.arange(len(found)).repeat_interleave(n)
    together = agreement(ends, run)
    scores = {
        "residual": torch.tensor([-explains(f) for f in found]).repeat_interleave(n),
        "multiplier": torch.cat([f.multipliers for f in found]),
        "agreement": together,
        "stayed": -(ends - starts).flatten(1).norm(dim=1),
        "agreement gained": together - agreement(starts, run),
    }
    began = assign(starts, torch.cat([images.x, images.other]))[0] < n
    return _judged(ends.float(), scores, images.x.float(), images.other.float(), images.mean, began)


def pool_attack(found: Reconstruction, x: Tensor, held_out: Tensor, mean: Tensor) -> Pool:
    """The pooled candidates of an attack's restarts."""
    scores = {
        "residual": -found.residual[found.run],
        "multiplier": found.multipliers.reshape(len(found.run), -1).norm(dim=1),
        "agreement": agreement(found.candidates, found.run),
    }
    began = torch.zeros(len(found.run), dtype=torch.bool)  # in noise
    return _judged(found.candidates, scores, x, held_out, mean, began)


def _judged(
    candidates: Tensor, scores: Mapping[str, Tensor], x: Tensor, others: Tensor, mean: Tensor, began: Tensor
) -> Pool:
    ssim, image = judge_each(candidates, torch.cat([x, others]), mean)
    good, trained = ssim > GOOD, (image >= 0) & (image < len(x))
    return Pool(
        {name: score.double().numpy() for name, score in scores.items()},
        (good & trained).numpy(),
        (good & ~trained).numpy(),
        image.numpy(),
        began.numpy(),
    )


def join(pools: Iterable[Pool]) -> Pool:
    """Several pools as one: scores become ranks within their own pool, so that no pool outweighs another."""
    pools = list(pools)
    first = np.cumsum([0, *(1 + p.image.max(initial=0) for p in pools[:-1])])
    return Pool(
        {
            name: np.concatenate([rankdata(p.scores[name]) / len(p.image) for p in pools])
            for name in pools[0].scores
        },
        np.concatenate([p.member for p in pools]),
        np.concatenate([p.look_alike for p in pools]),
        np.concatenate([p.image + begin for p, begin in zip(pools, first, strict=True)]),
        np.concatenate([p.began for p in pools]),
    )


def areas(pool: Pool, names: Sequence[str] = BLIND, *, look_alikes: bool = True) -> dict[str, float]:
    """Area under each score's ROC; one half where there is nothing to tell apart."""
    return {name: roc(*split(pool, name, look_alikes)).area if _both(pool, look_alikes) else 0.5
            for name in names}  # fmt: skip


def best_area(pool: Pool, names: Sequence[str] = BLIND, *, look_alikes: bool = True) -> float:
    """The best of the scores, each read in the direction that serves the adversary better."""
    return max(max(area, 1 - area) for area in areas(pool, names, look_alikes=look_alikes).values())


def best_rate(
    pool: Pool, names: Sequence[str] = BLIND, target: float = 0.05, *, look_alikes: bool = True
) -> OperatingPoint | None:
    """The most members that a score lets pass where at most `target` of the others do; None without both."""
    points = []
    for name, area in areas(pool, names, look_alikes=look_alikes).items():
        if _both(pool, look_alikes):
            inside, outside = split(pool, name, look_alikes)
            sign = 1 if area >= 0.5 else -1
            points.append(operating_point(sign * inside, sign * outside, target))
    return max(points, key=lambda point: point.true_positive_rate, default=None)


def chance_area(pool: Pool, names: Sequence[str] = BLIND, *, draws: int = 200, seed: int = 0) -> float:
    """Mean of `best_area` when lots say which images were trained on: what choosing the best score is worth.

    Whole images change sides, with all their candidates: those of one image are no independent evidence.
    """
    generator = np.random.default_rng(seed)
    shown = pool.compared()
    present = np.unique(pool.image[shown])
    trained = np.isin(present, pool.image[pool.member])
    drawn = []
    for _ in range(draws):
        chosen = np.isin(pool.image, present[generator.permutation(trained)])
        drawn.append(
            best_area(Pool(pool.scores, shown & chosen, shown & ~chosen, pool.image, pool.began), names)
        )
    return float(np.mean(drawn)) if drawn else 0.5


def split(pool: Pool, name: str, look_alikes: bool = True) -> tuple[NDArray, NDArray]:
    """A score of the members, and of those they are to be told from."""
    score, others = pool.scores[name], pool.compared(look_alikes) & ~pool.member
    return score[pool.member], score[others]


def _both(pool: Pool, look_alikes: bool) -> bool:
    return bool(pool.member.any()) and bool((pool.compared(look_alikes) & ~pool.member).any())
