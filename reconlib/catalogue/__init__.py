"""Every figure and every claim of the three papers, with the rule that decides it, set before any run."""

from __future__ import annotations

from reconlib.catalogue import buzaglo, haim, runkel
from reconlib.catalogue.figure import Figure
from reconlib.claims import Claim

__all__ = ["CLAIMS", "FIGURES", "Figure", "claim", "claims_of"]

FIGURES: tuple[Figure, ...] = (*buzaglo.FIGURES, *haim.FIGURES, *runkel.FIGURES)
CLAIMS: dict[str, Claim] = {c.id: c for c in (*buzaglo.CLAIMS, *haim.CLAIMS, *runkel.CLAIMS)}


def claim(id: str) -> Claim:
    """The claim called `id`."""
    if id not in CLAIMS:
        raise KeyError(f"no claim {id!r}; there are {', '.join(CLAIMS)}")
    return CLAIMS[id]


def claims_of(notebook: str) -> tuple[Claim, ...]:
    """The claims that a notebook has to judge."""
    return tuple(c for c in CLAIMS.values() if c.notebook == notebook)
