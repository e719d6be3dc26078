"""A figure or an experiment of a paper, and the guard that most counts share."""

from __future__ import annotations

from dataclasses import dataclass

from reconlib.claims import guard


@dataclass(frozen=True)
class Figure:
    """What a reader looks for: paper, number (or a name, for an experiment without one) and our notebook."""

    paper: str
    number: str
    title: str
    notebook: str


# A count of good reconstructions means nothing if images that were never trained on pass as well.
HELD_OUT = guard(
    "held_out_ratio",
    0.1,
    0.5,
    meaning="held-out images above SSIM 0.4, relative to training images above it, same candidates",
)
