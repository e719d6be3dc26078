"""How the end of a search depends on its start: slopes, distinct minima, and members among the converged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from reconlib.bilevel.measures import distinct, judge_ending
from reconlib.bilevel.search import Found
from reconlib.bilevel.starts import Parts

RADIUS = 0.1  # in contrasts: two images closer than this are one
EXPLAINED = 0.1  # relative distance, as the search's own formulation measures it, of a search that converged


@dataclass(frozen=True)
class Minima:
    """Where searches from several starts ended; shares of images are over the converged searches alone."""

    starts: int
    distinct: int  # end points that differ, of all searches
    converged: int  # searches that explain the weights
    distinct_converged: int  # end points that differ, of those: a search that was still moving is no minimum
    images: int  # in the converged searches
    members: int  # of those, above SSIM 0.4 with a training image
    chance: int  # the same with the control part

    @property
    def distinct_share(self) -> float:
        """Distinct end points per start."""
        return self.distinct / self.starts

    def to_dict(self) -> dict[str, int]:
        """JSON-ready form."""
        return asdict(self)


def explains(found: Found) -> float:
    """The relative distance that the search's own formulation descends."""
    return found.parameter_distance if found.formulation == "bilevel" else found.residual


def minima(
    found: Sequence[Found], images: Parts, *, radius: float = RADIUS, explained: float = EXPLAINED
) -> Minima:
    """Count what became of searches on one network; only a judge may call this."""
    near = radius * images.contrast
    done = [f for f in found if explains(f) <= explained]
    judged = [judge_ending(f, images) for f in done]
    n = len(images.x)
    return Minima(
        starts=len(found),
        distinct=distinct(torch.stack([f.images for f in found]), near),
        converged=len(done),
        distinct_converged=distinct(torch.stack([f.images for f in done]), near) if done else 0,
        images=n * len(done),
        members=sum(round(n * e.members) for e in judged),
        chance=sum(round(n * e.chance) for e in judged),
    )


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the straight line through the points, by least squares."""
    return float(np.polyfit(x, y, 1)[0])
