"""Rates with honest intervals: true positives at a fixed false-positive rate, ROC, precision and recall.

A count above SSIM 0.4 says nothing about look-alikes. Here the threshold is set by images that were *not*
trained on, and every rate carries an exact interval. Scores are "higher is better" (SSIM, or −distance).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, rankdata


@dataclass(frozen=True)
class OperatingPoint:
    """How many members pass a threshold that lets at most `target` of the held-out images pass."""

    target: float
    threshold: float
    false_positive_rate: float
    false_positive_interval: tuple[float, float]
    true_positive_rate: float
    true_positive_interval: tuple[float, float]
    true_positives: int
    members: int
    held_out: int

    def to_dict(self) -> dict:
        """JSON-ready form."""
        record = asdict(self)
        # Nothing passes an infinite threshold; JSON has no word for it.
        record["threshold"] = None if math.isinf(self.threshold) else self.threshold
        return record


@dataclass(frozen=True)
class Curve:
    """Points of an ROC (false-positive against true-positive rate) or of precision (y) against recall (x)."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    threshold: NDArray[np.float64]
    area: float


def proportion_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson: the exact interval of a proportion, never too narrow even for 0 of 20."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials cannot be")
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.ppf(1 - tail, successes + 1, trials - successes))
    return low, high


def operating_point(
    members: ArrayLike, held_out: ArrayLike, target: float = 0.01, confidence: float = 0.95
) -> OperatingPoint:
    """True-positive rate of `members` at the lowest threshold that at most `target` of `held_out` pass.

    The threshold is an order statistic of the held-out scores, so the false-positive rate on fresh images
    follows a Beta law whatever the scores' distribution; its interval accounts for the threshold having
    been chosen on the same images. With 100 held-out images a target below 1 % cannot be certified: the
    interval says so.
    """
    inside, outside = _scores(members, "members"), _scores(held_out, "held_out")
    if not 0 <= target < 1:
        raise ValueError(f"a false-positive rate lies in [0, 1), not {target}")
    allowed = math.floor(target * len(outside) + 1e-9)
    threshold = float(np.sort(outside)[::-1][allowed])
    passed = int((inside > threshold).sum())
    tail = (1 - confidence) / 2
    law = beta(allowed + 1, len(outside) - allowed)
    return OperatingPoint(
        target=target,
        threshold=threshold,
        false_positive_rate=float((outside > threshold).mean()),
        false_positive_interval=(float(law.ppf(tail)), float(law.ppf(1 - tail))),
        true_positive_rate=passed / len(inside),
        true_positive_interval=proportion_interval(passed, len(inside), confidence),
        true_positives=passed,
        members=len(inside),
        held_out=len(outside),
    )


def roc(members: ArrayLike, held_out: ArrayLike) -> Curve:
    """ROC of telling members from held-out images by score; `area` counts ties as one half."""
    inside, outside = _scores(members, "members"), _scores(held_out, "held_out")
    threshold = np.concatenate([[np.inf], np.unique(np.concatenate([inside, outside]))[::-1], [-np.inf]])
    above = [(scores > threshold[:, None]).mean(1) for scores in (outside, inside)]
    ranks = rankdata(np.concatenate([inside, outside]))[: len(inside)].sum()
    area = (ranks - len(inside) * (len(inside) + 1) / 2) / (len(inside) * len(outside))
    return Curve(above[0], above[1], threshold, float(area))


def precision_recall(scores: ArrayLike, truth: ArrayLike) -> Curve:
    """Precision against recall, accepting from the highest score down; `area` is average precision.

    Items of one score are accepted together, so that their order in memory cannot flatter the curve.
    """
    score, true = _scores(scores, "scores"), np.asarray(truth, dtype=bool)
    if score.shape != true.shape:
        raise ValueError(f"{len(score)} scores but {len(true)} truths")
    threshold = np.unique(score)[::-1]
    accepted = np.array([(score >= t).sum() for t in threshold])
    found = np.array([(true & (score >= t)).sum() for t in threshold])
    recall, precision = found / max(1, true.sum()), found / accepted
    area = float((np.diff(recall, prepend=0.0) * precision).sum())
    return Curve(recall, precision, threshold, area)


def precision_at(scores: ArrayLike, truth: ArrayLike, k: int, confidence: float = 0.95) -> dict:
    """Precision among the k highest scores (fewer if there are fewer), with its exact interval."""
    score, true = np.asarray(scores, dtype=float), np.asarray(truth, dtype=bool)
    top = np.argsort(-score, kind="stable")[:k]
    hits = int(true[top].sum())
    low, high = proportion_interval(hits, len(top), confidence)
    return {"k": len(top), "true": hits, "precision": hits / max(1, len(top)), "low": low, "high": high}


def _scores(values: ArrayLike, name: str) -> NDArray[np.float64]:
    scores = np.asarray(values, dtype=float)
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"{name} must be a non-empty list of scores, got shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError(f"{name} holds {int(np.isnan(scores).sum())} NaN scores")
    return scores
