"""Verdicts by hand-made values, and a catalogue without gaps."""

import dataclasses
import json

import pytest
from scipy.stats import ttest_1samp

from reconlib.catalogue import CLAIMS, FIGURES, claim, claims_of
from reconlib.claims import (
    Claim,
    Rule,
    at_least,
    at_most,
    claim_from_dict,
    guard,
    measured,
    ratio,
    trend,
    verdict,
)


def one(*rules):
    return Claim("X", "B", ("1",), "x", "something", "something", rules)


COUNT = at_least("good", 30, 15, meaning="images")
HELD_OUT = guard("held_out", 0.1, 0.5, meaning="share")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([30], "reproduced"),
        ([29.9], "partly"),
        ([15], "partly"),
        ([14.9], "not reproduced"),
        ([31, 32, 33], "reproduced"),
        ([60, 60, 1], "partly"),  # the mean meets 30, but the interval reaches below 15
        ([20, 21, 22], "partly"),
        ([1, 1, 40], "not reproduced"),
    ],
)
def test_at_least(values, expected):
    assert verdict(one(COUNT), {"good": values}).verdict == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.02], "reproduced"),
        ([0.03], "reproduced"),
        ([0.05], "partly"),
        ([0.07], "not reproduced"),
        ([0.0, 0.0, 0.09], "partly"),  # mean 0.03, interval beyond 0.06
    ],
)
def test_at_most(values, expected):
    rule = at_most("change", 0.03, 0.06, meaning="difference")
    assert verdict(one(rule), {"change": values}).verdict == expected


def test_without_a_partly_bound_the_interval_must_clear_the_bound():
    rule = at_least("good", 30, meaning="images")
    assert verdict(one(rule), {"good": [31, 30.9, 31.1]}).verdict == "reproduced"
    assert verdict(one(rule), {"good": [25, 31, 40]}).verdict == "partly"
    assert verdict(one(rule), {"good": [25, 25, 25]}).verdict == "not reproduced"


@pytest.mark.parametrize(
    ("good", "held_out", "expected"),
    [
        (40, 0.0, "reproduced"),
        (40, 0.3, "partly"),
        (40, 0.8, "not reproduced"),
        (0, 0.0, "not reproduced"),  # a clean control is no reproduction
        (20, 0.0, "partly"),
    ],
)
def test_a_guard_only_lowers(good, held_out, expected):
    assert verdict(one(COUNT, HELD_OUT), {"good": good, "held_out": held_out}).verdict == expected


def test_several_rules():
    both = one(COUNT, at_least("best", 0.6, 0.5, meaning="SSIM"))
    assert verdict(both, {"good": 40, "best": 0.7}).verdict == "reproduced"
    mixed = verdict(both, {"good": 40, "best": 0.1})
    assert mixed.verdict == "partly"
    assert mixed.by_metric == {"good": "reproduced", "best": "not reproduced"}
    assert verdict(both, {"good": 4, "best": 0.1}).verdict == "not reproduced"


def test_not_run_and_incomplete():
    assert verdict(one(COUNT), {}).verdict == "not run"
    with pytest.raises(ValueError, match="judged by good, held_out; got good"):
        verdict(one(COUNT, HELD_OUT), {"good": 3})
    with pytest.raises(ValueError, match="judged by good"):
        verdict(one(COUNT), {"good": 3, "goood": 3})
    with pytest.raises(ValueError, match="finite"):
        verdict(one(COUNT), {"good": [30, float("nan")]})
    with pytest.raises(ValueError, match="one number per seed"):
        verdict(one(COUNT), {"good": []})


def test_interval_is_students():
    values = [3.0, 5.0, 4.0, 8.0]
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    summary = measured(values)
    assert (summary.low, summary.high) == pytest.approx((low, high))
    assert (summary.mean, summary.min, summary.max) == (5.0, 3.0, 8.0)
    assert measured(7).low == measured(7).high == 7


def test_impossible_rules_are_refused():
    with pytest.raises(ValueError, match="stricter"):
        at_least("good", 10, 20, meaning="images")
    with pytest.raises(ValueError, match="stricter"):
        at_most("good", 10, 5, meaning="images")
    with pytest.raises(ValueError, match="at_least or at_most"):
        Rule("good", "about", 1, 1, "images")
    with pytest.raises(ValueError, match="no rule that could"):
        one(HELD_OUT)
    with pytest.raises(ValueError, match="two rules"):
        one(COUNT, COUNT)
    with pytest.raises(ValueError, match="unknown paper"):
        dataclasses.replace(one(COUNT), paper="Z")


@pytest.mark.parametrize("id", CLAIMS)
def test_claims_survive_json_and_can_be_met_and_missed(id):
    original = claim(id)
    assert claim_from_dict(json.loads(json.dumps(original.to_dict()))) == original
    best = {r.metric: r.reproduced for r in original.rules}
    worst = {r.metric: r.partly + (-1 if r.kind == "at_least" else 1) for r in original.rules}
    assert verdict(original, best).verdict == "reproduced"
    assert verdict(original, worst).verdict == "not reproduced"


def test_the_catalogue_has_every_figure_and_no_claim_without_one():
    numbers = {(f.paper, f.number): f for f in FIGURES}
    assert len(numbers) == len(FIGURES)
    assert {n for p, n in numbers if p == "B"} == {str(i) for i in range(1, 18)}
    assert {"1", "2", "3", "4"} <= {n for p, n in numbers if p == "H"}
    claimed = {(c.paper, f) for c in CLAIMS.values() for f in c.figures}
    assert claimed == set(numbers)
    for c in CLAIMS.values():
        assert any(numbers[c.paper, f].notebook == c.notebook for f in c.figures), c.id


def test_lookups_say_what_exists():
    assert {c.id for c in claims_of("fig10_classes_fixed_n")} == {"B10-six-times", "B10-quality"}
    with pytest.raises(KeyError, match="B10-six-times"):
        claim("B99")


def test_trend_and_ratio():
    assert trend([1, 2, 3, 10], [0, 4, 5, 90]) == pytest.approx(1)
    assert trend([1, 2, 3], [5, 5, 5]) == 0
    assert trend([1, 2], [2, 1]) == pytest.approx(-1)
    assert ratio(5, 0) == 5 and ratio(6, 2) == 3
    with pytest.raises(ValueError, match="equally long"):
        trend([1], [1])
