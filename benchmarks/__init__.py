"""Benchmarks: each case measures ours against a reference on the same machine in the same run.

A module in this folder registers its cases on import:

    @case("attack_step_mlp")
    def attack_step_mlp() -> Measurement:
        return Measurement(ours=0.08, reference=0.44, unit="s/step")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """What a case measured; `extra` holds further columns (good, best, peak memory, …)."""

    ours: float
    reference: float | None  # None: nothing to compare with
    unit: str
    higher_is_better: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How many times better than the reference: 8 is eight times faster, 0.75 is 75 % of its rate."""
        if self.reference is None:
            return None
        worse, better = (self.reference, self.ours) if self.higher_is_better else (self.ours, self.reference)
        return better / worse if worse else None


@dataclass(frozen=True)
class Case:
    """A named benchmark; end-to-end ones take minutes and run only when asked for."""

    name: str
    measure: Callable[[], Measurement]
    e2e: bool


CASES: dict[str, Case] = {}


def case(name: str, *, e2e: bool = False) -> Callable[[Callable[[], Measurement]], Callable[[], Measurement]]:
    """Register the decorated function as the case `name`."""

    def register(measure: Callable[[], Measurement]) -> Callable[[], Measurement]:
        if name in CASES:
            raise ValueError(f"there are two benchmarks named {name!r}")
        CASES[name] = Case(name, measure, e2e)
        return measure

    return register
