"""Accelerated full-batch descent with roll-back: the loop that the fast trainers run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from reconlib.training.products import Products
from reconlib.training.settings import DivergenceError

GROWTH = 1.03  # of the rate after a step that helped
CUT = 1.5  # of the rate after one that did not


class Objective(NamedTuple):
    """A function of the outputs: its value, its gradient `(n, outputs)` on demand, numbers to report."""

    value: float
    derivatives: Callable[[], Tensor]
    report: dict[str, float]


class Descent:
    """Heavy-ball steps on objective(Φ(θ)) + ½ · decay · ‖θ‖².

    A step that raises the value (by more than the share `slack` of the best one so far) is taken
    back, the momentum dropped and the rate cut; the rate grows with every step that is kept, so that
    it hovers at the largest one the curvature allows. So is a step that lowers the value by more than
    1 + `leap` · |value|: it left the path.
    """

    def __init__(
        self,
        engine: Products,
        theta: Tensor,
        objective: Callable[[Tensor], Objective],
        decay: float,
        lr: float,
        momentum: float,
    ):
        self.engine, self.objective, self.decay = engine, objective, decay
        self.rate, self.momentum, self.growth = lr, momentum, GROWTH
        self.slack, self.leap = 0.0, math.inf
        self.theta, self.velocity = theta.clone(), torch.zeros_like(theta)
        self.trial, self.gradient = torch.empty_like(theta), torch.empty_like(theta)
        self.best = math.inf
        self.refresh()
        if not math.isfinite(self.value):
            raise DivergenceError("the loss is not finite at the start of training: check data and weights")

    def refresh(self) -> None:
        """Evaluate again at θ, after θ has been changed from outside."""
        self.value, self.at = self._evaluate(self.theta)
        self.best = min(self.best, self.value)
        self._differentiate()

    def step(self) -> bool:
        """Try one step; True if it was kept."""
        self.velocity.mul_(self.momentum).add_(self.gradient, alpha=-self.rate)
        torch.add(self.theta, self.velocity, out=self.trial)
        value, at = self._evaluate(self.trial)
        ceiling = max(self.value, self.best * (1 + self.slack)) if self.slack else self.value
        floor = self.value - 1 - self.leap * abs(self.value)
        if not floor <= value < ceiling:  # NaN as well
            self.velocity.zero_()
            self.rate /= CUT
            return False
        self.theta, self.trial = self.trial, self.theta
        self.value, self.at, self.best = value, at, min(self.best, value)
        self._differentiate()
        self.rate *= self.growth
        return True

    @property
    def residual(self) -> float:
        """‖∇(loss) + decay · θ‖ / (decay · ‖θ‖): how far θ is from stationary; NaN without decay."""
        scale = self.decay * float(self.theta.norm())
        return float(self.gradient.norm()) / scale if scale else math.nan

    def state(self) -> dict[str, Tensor]:
        numbers = torch.tensor([self.rate, self.best], dtype=torch.float64)
        return {"theta": self.theta, "velocity": self.velocity, "numbers": numbers}

    def load(self, state: dict[str, Tensor]) -> None:
        self.theta.copy_(state["theta"])
        self.velocity.copy_(state["velocity"])
        self.refresh()
        self.rate, self.best = state["numbers"].tolist()

    def _evaluate(self, theta: Tensor) -> tuple[float, Objective]:
        at = self.objective(self.engine.forward(theta).double())
        if not self.decay:
            return at.value, at
        norm = float(torch.linalg.vector_norm(theta, dtype=torch.float64))
        return at.value + 0.5 * self.decay * norm**2, at

    def _differentiate(self) -> None:
        gradient = self.engine.backward(self.at.derivatives())
        torch.add(gradient, self.theta, alpha=self.decay, out=self.gradient)
