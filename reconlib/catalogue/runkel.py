"""Experiments and claims of Runkel et al. 2024; listed by experiment."""

from __future__ import annotations

from reconlib.catalogue.figure import Figure
from reconlib.claims import Claim, Rule, at_least, at_most

FIGURES = tuple(
    Figure("R", number, title, notebook)
    for number, title, notebook in [
        ("random starts", "Both formulations from random noise", "uncertainty_initialisation"),
        ("starts at the truth", "Both formulations from the training images", "uncertainty_initialisation"),
        ("other partition", "Both formulations from other images", "uncertainty_initialisation"),
        ("noise proportion", "Distance against the proportion of noise", "uncertainty_landscape"),
        ("minima", "Many minima over many random starts", "uncertainty_landscape"),
        ("membership", "Members and look-alikes", "uncertainty_membership"),
    ]
)


def _claim(id: str, experiment: str, notebook: str, statement: str, expected: str, *rules: Rule) -> Claim:
    return Claim(id, "R", (experiment,), notebook, statement, expected, rules)


CLAIMS = (
    _claim(
        "R-random-starts",
        "random starts",
        "uncertainty_initialisation",
        "From random starts, weights are explained well by images that are no members.",
        "small parameter distance, none of the images in the training set",
        at_most("member_share", 0.1, 0.3, meaning="share of converged images that match a training image"),
        at_most(
            "parameter_distance", 0.1, 0.3, meaning="‖θ(x) − θ*‖/‖θ*‖ at the end, bilevel, random starts"
        ),
    ),
    _claim(
        "R-truth",
        "starts at the truth",
        "uncertainty_initialisation",
        "Starts at the training images stay there.",
        "images hardly move",
        at_most("drift_bilevel", 0.1, 0.3, meaning="RMS move over the RMS contrast of the images, bilevel"),
        at_most("drift_kkt", 0.1, 0.3, meaning="the same, KKT"),
    ),
    _claim(
        "R-other-partition",
        "other partition",
        "uncertainty_initialisation",
        "Starts at other images of the data set stay there too, and explain the weights.",
        "small parameter distance although no image is a member",
        at_most(
            "start_over_truth", 0.5, 0.9, meaning="distance to the start over distance to the nearest member"
        ),
        at_most("parameter_distance", 0.1, 0.3, meaning="‖θ(x) − θ*‖/‖θ*‖ at the end, bilevel"),
    ),
    _claim(
        "R-noise-proportion",
        "noise proportion",
        "uncertainty_landscape",
        "The distance grows faster with the proportion of noise in the bilevel form than in the KKT form.",
        "a steeper curve for bilevel",
        at_least(
            "slope_ratio", 1.2, 1.0, meaning="slope of distance to truth against noise, bilevel over KKT"
        ),
    ),
    _claim(
        "R-minima",
        "minima",
        "uncertainty_landscape",
        "Random starts end in different minima.",
        "a landscape with many local minima",
        at_least("distinct_share", 0.9, 0.5, meaning="distinct end points per random start"),
    ),
    _claim(
        "R-membership",
        "membership",
        "uncertainty_membership",
        "Without the training set, an adversary cannot tell members from look-alikes.",
        "no certainty about membership (affine and one-hidden-layer networks)",
        at_most(
            "area",
            0.6,
            0.75,
            meaning="best area under the ROC over residual, multiplier and cluster tightness",
        ),
    ),
)
