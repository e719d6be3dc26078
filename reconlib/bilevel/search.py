"""Both formulations as attacks: from a start, descend over the images; keep what was found and measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from reconlib.bilevel.classifier import Training
from reconlib.bilevel.gradients import implicit, stationarity
from reconlib.bilevel.retrain import NotConverged, Saddle, leave, retrain

Objective = Callable[[Tensor], tuple[float, Tensor]]
_MOST_SADDLES = 10


@dataclass(frozen=True)
class Found:
    """Where a descent over the images ended; distances are relative to ‖θ*‖."""

    formulation: str
    start: Tensor  # (n, *image) float64
    images: Tensor  # (n, *image) float64
    parameter_distance: float  # ‖θ(x) − θ*‖ / ‖θ*‖, θ(x) retrained on the images from where the search was
    residual: float  # ‖θ* − Σ λ_i ∇Φ(x_i)‖ / ‖θ*‖, what the KKT form descends
    multipliers: Tensor  # (n,) size of each image's multipliers at θ*
    history: dict[str, list[float]] = field(default_factory=dict)  # value by evaluation


def search(
    formulation: str,
    training: Training,
    target: Tensor,
    start: Tensor,
    *,
    steps: int = 200,
    tolerance: float = 1e-6,
) -> Found:
    """Images that explain `target` (p,), searched from `start` (n, *image) by L-BFGS.

    `formulation` is a key of FORMULATIONS. Ends after `steps` iterations, or when the distance that the
    formulation descends is below `tolerance`, relative to ‖θ*‖.
    """
    if formulation not in FORMULATIONS:
        raise ValueError(f"there is no formulation {formulation!r}; there are {', '.join(FORMULATIONS)}")
    scale = float(target.norm())
    objective = FORMULATIONS[formulation](training, target)
    history: list[float] = []

    def evaluate(flat: NDArray) -> tuple[float, NDArray]:
        value, gradient = objective(torch.from_numpy(flat).view(len(start), -1))
        history.append((2 * value) ** 0.5 / scale)
        # In units of ‖θ*‖², so that one tolerance serves every network.
        return value / scale**2, gradient.flatten().numpy() / scale**2

    def stop(_: NDArray) -> None:
        if history[-1] <= tolerance:
            raise StopIteration

    options = {"maxiter": steps, "maxfun": 3 * steps, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    begin = start.detach().double().flatten().numpy()
    ended = minimize(evaluate, begin, jac=True, method="L-BFGS-B", callback=stop, options=options)
    images = torch.from_numpy(ended.x).view(len(start), -1)
    return Found(
        formulation,
        start.detach().double(),
        images.view(start.shape),
        parameter_distance(training, images, target, getattr(objective, "theta", None)),
        (2 * stationarity(training, images, target)[0]) ** 0.5 / scale,
        training.multipliers(target, images).norm(dim=1),
        {"distance": history},
    )


def parameter_distance(training: Training, x: Tensor, target: Tensor, start: Tensor | None = None) -> float:
    """‖θ(x) − θ*‖ / ‖θ*‖ after retraining on x (n, *image), from `start` or, by default, from θ* itself."""
    begin = target if start is None else start
    theta = retrain(training, x.double().flatten(1), begin, most_steps=5000).theta
    return float((theta - target).norm() / target.norm())


class _Bilevel:
    """½‖θ(x) − θ*‖²; each retraining begins at the minimiser for the best images so far.

    With a hidden layer the training loss has many minimisers, and a retraining that began elsewhere would
    jump between them from one evaluation to the next.
    """

    def __init__(self, training: Training, target: Tensor):
        self.training, self.target = training, target
        self.theta, self.value = target, math.inf
        self.images: Tensor | None = None  # the best so far

    def __call__(self, x: Tensor) -> tuple[float, Tensor]:
        try:
            theta, value, gradient = self._retrained(x)
        except NotConverged:
            if self.images is None:
                raise
            return self._refused(x - self.images)
        if value < self.value:
            self.theta, self.value, self.images = theta, value, x.clone()
        return value, gradient

    def _retrained(self, x: Tensor) -> tuple[Tensor, float, Tensor]:
        theta = self.theta
        for _ in range(_MOST_SADDLES):
            theta = retrain(self.training, x, theta).theta
            try:
                return theta, *implicit(self.training, x, theta, self.target)
            except Saddle as saddle:
                theta = leave(self.training, x, theta, saddle)
        raise NotConverged(f"retraining met {_MOST_SADDLES} saddles in a row: lower the sharpness")

    def _refused(self, away: Tensor) -> tuple[float, Tensor]:
        """Where retraining fails, `away` from the best images: a value and a slope that lead back to them.

        A line search tries images far from the best ones, where the inner problem can be too stiff.
        """
        value = 10.0 * self.value
        return value, away * (value / float((away * away).sum().clamp_min(1e-30)))


def _kkt(training: Training, target: Tensor) -> Objective:
    return lambda x: stationarity(training, x, target)


FORMULATIONS: dict[str, Callable[[Training, Tensor], Objective]] = {"bilevel": _Bilevel, "kkt": _kkt}
