"""To a stationary point of mean loss + ½ · decay · ‖θ‖², by accelerated descent.

The minimum of a ReLU network with decay lies on kinks: about a tenth of all (sample, neuron)
pre-activations z are zero there, so no gradient vanishes although the subdifferential contains zero,
and descent along the ReLU's own gradient chatters. Slopes σ(αz) instead let each z settle, within
1/α of the kink, where its slope is the fraction that stationarity asks for.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reconlib.losses import Loss
from reconlib.training.descent import CUT, Descent, Objective
from reconlib.training.products import Products
from reconlib.training.settings import Recipe
from reconlib.training.symmetry import shrink

APPROACH_MOMENTUM = 0.9
SHRINK_EVERY = 25
SETTLED = 0.001  # gain over SHRINK_EVERY steps, relative, below which the approach is over
# Settling: the ReLU's objective is no longer a judge of steps along smoothed slopes, so they are
# kept unless they are clearly bad, and the rate falls to a hundredth of the approach's.
SLACK, LAST_SHARE = 1e-2, 0.01
FORGET = 0.97  # per step, of the largest rate that worked


class Stationary:
    """Approach (with `shrink` now and then), then settle for `settle_steps` with an annealed rate."""

    def __init__(self, engine: Products, theta: Tensor, loss: Loss, targets: Tensor, settings: Recipe):
        if loss.separable and not settings.weight_decay:
            raise ValueError(f"{loss.name} without weight decay has no stationary point: use 'flow'")
        self.engine, self.settings = engine, settings
        engine.sharpness = settings.sharpness

        def objective(outputs: Tensor) -> Objective:
            value = float(loss.values(outputs, targets).mean())
            margin = loss.smallest_margin(outputs, targets)
            return Objective(
                value,
                lambda: loss.derivatives(outputs, targets) / engine.n,
                {"loss": value, "margin": margin},
            )

        start = theta * settings.start_scale
        decay = settings.weight_decay
        self.descent = Descent(engine, start, objective, decay, settings.lr, APPROACH_MOMENTUM)
        self.steps, self.mark = 0, math.inf
        self.settled = -1  # steps of settling so far; −1 before it starts
        self.top_rate = settings.lr  # what settling starts from: the largest rate that worked of late

    def step(self) -> None:
        if self.settled < 0 and self.steps % SHRINK_EVERY == 0:
            self._shrink()
            last_chance = self.steps >= self.settings.steps - self.settings.settle_steps
            if self.descent.value > (1 - SETTLED) * self.mark or last_chance:
                self.settled = 0
            self.mark = self.descent.value
        if self.settled >= 0:
            self._settle()
        else:
            if self.descent.step():
                self.top_rate = max(FORGET * self.top_rate, self.descent.rate)
        self.steps += 1

    def _settle(self) -> None:
        descent = self.descent
        descent.momentum, descent.slack, descent.growth = self.settings.momentum or 0.0, SLACK, 1.0
        descent.rate = self.top_rate * LAST_SHARE ** (self.settled / self.settings.settle_steps)
        if not descent.step():
            self.top_rate /= CUT
        self.settled += 1

    def _shrink(self) -> None:
        """Take the symmetric shrinking if the objective agrees that it is one."""
        descent = self.descent
        before, theta = descent.value, descent.theta.clone()
        descent.theta.copy_(shrink(self.engine, descent.theta))
        descent.refresh()
        if not descent.value <= before:
            descent.theta.copy_(theta)
            descent.refresh()

    @property
    def theta(self) -> Tensor:
        return self.descent.theta

    @property
    def finished(self) -> str:
        if self.settled >= self.settings.settle_steps:
            return "settled"
        return "stalled" if self.descent.rate < 1e-12 * self.settings.lr else ""

    def report(self) -> dict[str, float]:
        return {**self.descent.at.report, "residual": self.descent.residual, "rate": self.descent.rate}

    def state(self) -> dict[str, Tensor]:
        phase = torch.tensor([self.steps, self.mark, self.settled, self.top_rate], dtype=torch.float64)
        return {**self.descent.state(), "phase": phase}

    def load(self, state: dict[str, Tensor]) -> None:
        steps, self.mark, settled, self.top_rate = state["phase"].tolist()
        self.steps, self.settled = int(steps), int(settled)
        self.descent.load(state)
