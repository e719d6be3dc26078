"""Claims of the papers, the rules that decide them, and verdicts computed from measured values.

A rule is data that is written down before a run (`reconlib.catalogue`); a verdict is never typed. With values
of several seeds, mean and 95 % interval (Student) decide:
- reproduced: the mean meets the rule's `reproduced` bound, and the pessimistic end of the interval its
  `partly` bound (which defaults to the same bound);
- partly: the mean meets the `partly` bound;
- not reproduced: otherwise.  not run: nothing was measured.
One seed has no interval: its value decides alone, and the number of seeds stands beside the verdict.
A claim with several rules is reproduced when all are, and not reproduced when none is even partly. A guard
(say, that held-out images do not pass as well) can only lower a verdict, never raise it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from scipy.stats import t as student

NOT_RUN = "not run"
VERDICTS = ("not reproduced", "partly", "reproduced")  # from worst to best
PAPERS = {
    "H": "Haim et al. 2022, Reconstructing Training Data from Trained Neural Networks",
    "B": "Buzaglo et al. 2023, Deconstructing Data Reconstruction: Multiclass, Weight Decay and General "
    "Losses",
    "R": "Runkel et al. 2024, Training Data Reconstruction: Privacy due to Uncertainty?",
}


@dataclass(frozen=True)
class Rule:
    """A bound on one measured quantity."""

    metric: str
    kind: str  # at_least | at_most
    reproduced: float
    partly: float
    meaning: str  # what is measured, in words
    guard: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("at_least", "at_most"):
            raise ValueError(f"unknown kind of rule {self.kind!r}; choose at_least or at_most")
        ordered = (
            self.partly <= self.reproduced if self.kind == "at_least" else self.partly >= self.reproduced
        )
        if not ordered:
            raise ValueError(
                f"{self.metric}: the partly bound {self.partly} is stricter than {self.reproduced}"
            )


def at_least(metric: str, reproduced: float, partly: float | None = None, *, meaning: str) -> Rule:
    """The metric is expected to reach `reproduced`."""
    return Rule(metric, "at_least", reproduced, reproduced if partly is None else partly, meaning)


def at_most(metric: str, reproduced: float, partly: float | None = None, *, meaning: str) -> Rule:
    """The metric is expected to stay within `reproduced`."""
    return Rule(metric, "at_most", reproduced, reproduced if partly is None else partly, meaning)


def guard(metric: str, reproduced: float, partly: float, *, meaning: str) -> Rule:
    """An upper bound that can only lower the verdict of the other rules."""
    return Rule(metric, "at_most", reproduced, partly, meaning, guard=True)


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, in our own words, and what would count as reproduced."""

    id: str
    paper: str  # a key of PAPERS
    figures: tuple[str, ...]
    notebook: str
    statement: str
    expected: str  # what the paper reports
    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise ValueError(f"{self.id}: unknown paper {self.paper!r}; choose one of {', '.join(PAPERS)}")
        if not any(not rule.guard for rule in self.rules):
            raise ValueError(f"{self.id} has no rule that could reproduce it")
        if len({rule.metric for rule in self.rules}) != len(self.rules):
            raise ValueError(f"{self.id} has two rules on one metric")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the values that a notebook has to give."""
        return tuple(rule.metric for rule in self.rules)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return asdict(self) | {"figures": list(self.figures), "rules": [asdict(rule) for rule in self.rules]}


@dataclass(frozen=True)
class Measured:
    """Values of one metric over seeds, with mean, range and 95 % interval of the mean."""

    values: tuple[float, ...]
    mean: float
    min: float
    max: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return asdict(self) | {"values": list(self.values)}


@dataclass(frozen=True)
class Judged:
    """A claim's verdict, and how each of its rules came out."""

    verdict: str
    measured: Mapping[str, Measured] = field(default_factory=dict)
    by_metric: Mapping[str, str] = field(default_factory=dict)


def measured(values: float | Sequence[float]) -> Measured:
    """Summarise one value per seed (a bare number is one seed)."""
    numbers = np.atleast_1d(np.asarray(values, dtype=float))
    if numbers.ndim != 1 or len(numbers) == 0:
        raise ValueError("a metric needs one number per seed, got none or a table")
    if not np.isfinite(numbers).all():
        # A failed seed must not vanish: the notebook has to say what it counts as.
        raise ValueError(f"metric values must be finite, got {numbers.tolist()}")
    n, mean = len(numbers), float(numbers.mean())
    half = float(student.ppf(0.975, n - 1) * numbers.std(ddof=1) / math.sqrt(n)) if n > 1 else 0.0
    return Measured(
        tuple(numbers.tolist()), mean, float(numbers.min()), float(numbers.max()), mean - half, mean + half
    )


def judge_rule(rule: Rule, value: Measured) -> str:
    """The verdict of one rule."""
    sign = 1 if rule.kind == "at_least" else -1
    pessimistic = sign * (value.low if rule.kind == "at_least" else value.high)
    if sign * value.mean >= sign * rule.reproduced and pessimistic >= sign * rule.partly:
        return "reproduced"
    return "partly" if sign * value.mean >= sign * rule.partly else "not reproduced"


def verdict(claim: Claim, values: Mapping[str, float | Sequence[float]]) -> Judged:
    """Judge a claim by `values`: for each of its metrics one number per seed."""
    if not values:
        return Judged(NOT_RUN)
    if set(values) != set(claim.metrics):
        raise ValueError(
            f"{claim.id} is judged by {', '.join(claim.metrics)}; got {', '.join(sorted(values))}"
        )
    numbers = {name: measured(values[name]) for name in claim.metrics}
    outcome = {rule.metric: judge_rule(rule, numbers[rule.metric]) for rule in claim.rules}
    ranks = {metric: VERDICTS.index(word) for metric, word in outcome.items()}
    main = [ranks[rule.metric] for rule in claim.rules if not rule.guard]
    rank = 2 if min(main) == 2 else 0 if max(main) == 0 else 1
    rank = min([rank, *(ranks[rule.metric] for rule in claim.rules if rule.guard)])
    return Judged(VERDICTS[rank], numbers, outcome)


def claim_from_dict(record: Mapping[str, Any]) -> Claim:
    """The inverse of `Claim.to_dict`: lets a stored verdict be recomputed from the stored rule."""
    known = {name: record[name] for name in ("id", "paper", "notebook", "statement", "expected")}
    rules = tuple(Rule(**rule) for rule in record["rules"])
    return Claim(figures=tuple(record["figures"]), rules=rules, **known)


def trend(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation of a response y with a setting x, in [−1, 1]; 0 when y does not move."""
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"a trend needs two equally long lists of at least two, got {len(x)} and {len(y)}")
    if len(set(x)) == 1 or len(set(y)) == 1:
        return 0.0
    return float(spearmanr(x, y).statistic)


def ratio(count: float, baseline: float) -> float:
    """count / baseline with a baseline of at least one image, so that 5 against 0 is 5, not infinite."""
    return float(count) / max(1.0, float(baseline))
