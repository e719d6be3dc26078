"""Controls: what the same judge says when there is nothing to find.

Each control is a set of candidates, or a set of images, that cannot contain a reconstruction:
- held_out: the attack's candidates against as many images that were never trained on;
- untrained, other_weights: candidates of the same attack on a network that never saw the images;
- first_layer: rows of the trained first layer, shown as images (no attack at all);
- differences_held_out: differences of neurons, a second attack without a search, against images never seen;
- noise: random candidates. With the mean image added and stretched they look like the mean image,
  which by itself reaches an SSIM of 0.3 to 0.4 with many photographs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reconlib.matching import GOOD, Judgement, judge
from reconlib.rates import OperatingPoint, operating_point, proportion_interval

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Controls:
    """The judgement of the attack beside the judgement of each control, by name; always with "held_out"."""

    attack: Judgement
    controls: Mapping[str, Judgement]

    def __post_init__(self) -> None:
        if "held_out" not in self.controls:
            raise ValueError(f"controls need a held_out judgement, got {', '.join(self.controls) or 'none'}")

    def scores(self, name: str = "attack", by: str = "ssim") -> Tensor:
        """Scores (n,) of the attack or of a control, higher is better, by "ssim" or by "distance"."""
        known = {"attack": self.attack, **self.controls}
        if name not in known:
            raise KeyError(f"no control {name!r}; there are {', '.join(known)}")
        if by not in ("ssim", "distance"):
            raise KeyError(f"unknown score {by!r}; choose ssim or distance")
        return known[name].ssim if by == "ssim" else -known[name].distance

    def rate(self, target: float = 0.01, by: str = "ssim") -> OperatingPoint:
        """True-positive rate at the given false-positive rate among held-out images."""
        return operating_point(self.scores("attack", by).cpu(), self.scores("held_out", by).cpu(), target)

    def summary(
        self,
        targets: Sequence[float] = (0.0, 0.01, 0.05),
        by: str = "ssim",
        distributions: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """JSON-ready: count, best, quantiles and all SSIMs of attack and controls, and the rates.

        `distributions` names whose single SSIMs are kept (None: all): a sweep has many cells.
        """
        kept = ("attack", *self.controls) if distributions is None else distributions
        return {
            "score": by,
            "attack": describe(self.attack, "attack" in kept),
            "controls": {name: describe(control, name in kept) for name, control in self.controls.items()},
            "rates": [self.rate(target, by).to_dict() for target in targets],
        }


def compare(
    candidates: Tensor,
    task: Any,
    *,
    others: Mapping[str, Tensor] | None = None,
    attacks: Mapping[str, Tensor] | None = None,
    noise: bool = True,
    seed: int = 0,
    **matching: Any,
) -> Controls:
    """Judge candidates (m, C, H, W) against `task` and against the controls.

    `others` maps a control's name (untrained, other_weights, first_layer, …) to its candidates, which are
    judged against the training images in the same way; `attacks` those of further attacks, which are judged
    against the held-out images too, as `<name>_held_out`. `matching` goes to `judge`.
    """
    candidate_sets = dict(others or {})
    if "held_out" in candidate_sets:
        raise ValueError("held_out is made here from the attack's own candidates; name the control otherwise")
    if noise and len(candidates):
        candidate_sets["noise"] = noise_candidates(len(candidates), task.mean.shape, seed=seed)
    controls = {"held_out": judge(candidates, task.x_held_out, task.mean, **matching)}
    for name, others_candidates in {**candidate_sets, **(attacks or {})}.items():
        controls[name] = judge(others_candidates, task.x, task.mean, **matching)
    for name, others_candidates in (attacks or {}).items():
        controls[f"{name}_held_out"] = judge(others_candidates, task.x_held_out, task.mean, **matching)
    return Controls(judge(candidates, task.x, task.mean, **matching), controls)


def describe(judgement: Judgement, distribution: bool = True) -> dict[str, Any]:
    """JSON-ready summary of a judgement; the full distribution of SSIM is kept, to four digits."""
    scores = judgement.ssim.cpu()
    n, good = len(scores), judgement.good
    quantiles = torch.quantile(scores, torch.tensor(QUANTILES, dtype=scores.dtype)) if n else torch.zeros(0)
    summary: dict[str, Any] = {
        "n": n,
        "threshold": GOOD,
        "good": good,
        "share": good / n if n else 0.0,
        "share_interval": list(proportion_interval(good, n)),
        "best": judgement.best,
        "served": int((judgement.nearest >= 0).sum()),
        "quantiles": {f"{q:g}": round(float(v), 4) for q, v in zip(QUANTILES, quantiles, strict=False)},
    }
    if distribution:
        summary["ssim"] = [round(float(s), 4) for s in scores]
    return summary


def noise_candidates(count: int, shape: Sequence[int], scale: float = 1e-3, seed: int = 0) -> Tensor:
    """Candidates (count, *shape) ~ N(0, scale²): the start of an attack, taken for its end."""
    return scale * torch.randn((count, *shape), generator=torch.Generator().manual_seed(seed))


def noise_against_scale(
    x: Tensor, mean: Tensor, scales: Sequence[float], count: int | None = None, seed: int = 0
) -> dict[float, Judgement]:
    """How the noise control depends on the noise: from the bare mean image (scale → 0) to noise alone."""
    count = count or 2 * len(x)
    return {s: judge(noise_candidates(count, mean.shape, s, seed), x, mean) for s in scales}
