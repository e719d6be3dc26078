"""Regression with weight decay: Newton steps in the space of the n outputs.

A regression loss never flattens, so fitting the data is stiff (curvature ‖∇Φ‖²) while the decay that
selects among the fits is weak, and descent needs 10⁵ steps. Linearise Φ(θ+Δ) = Φ + JΔ instead: the
minimum over Δ of the quadratic model is θ+Δ = Jᵀμ, the stationarity equation itself, and its n
multipliers μ solve an n × n system with the Gram matrix JJᵀ. θ moves a share η towards Jᵀμ, and the
fit of the outputs is corrected within the span of the gradients, where it costs no norm.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reconlib.losses import Loss
from reconlib.training.products import Products
from reconlib.training.settings import DivergenceError, Recipe
from reconlib.training.symmetry import shrink

LAST_SHARE = 0.03  # of η at the end of training, relative to its start
# Share of the misfit corrected per step. All of it would be Newton's step if the slopes were the
# function's own; with smoothed ones, the full step slowly feeds on its own error.
FIT = 0.2
SLACK, HALVINGS = 1e-3, 8
RIDGE = 1e-8


class Newton:
    """One step per call; `settings.lr` is the first η. For networks with one output."""

    def __init__(self, engine: Products, theta: Tensor, loss: Loss, targets: Tensor, settings: Recipe):
        if loss.separable or engine.widths[-1] != 1 or not settings.weight_decay:
            raise ValueError("the newton trainer needs a regression loss, one output and weight decay")
        self.engine, self.loss, self.targets, self.settings = engine, loss, targets, settings
        engine.sharpness = settings.sharpness
        self.theta = shrink(engine, theta * settings.start_scale)
        self.steps, self.residual = 0, math.nan
        self.value, self.outputs = self._evaluate(self.theta)
        if not math.isfinite(self.value):
            raise DivergenceError("the loss is not finite at the start of training: check data and weights")

    def step(self) -> None:
        progress = self.steps / self.settings.steps
        eta = self.settings.lr * LAST_SHARE**progress
        towards, misfit = self._directions()
        move = (towards - self.theta).mul_(eta).add_(misfit, alpha=FIT * (1 - eta))
        for halving in range(HALVINGS + 1):
            trial = torch.add(self.theta, move, alpha=0.5**halving)
            value, outputs = self._evaluate(trial)
            if value < self.value * (1 + SLACK):
                self.theta, self.value, self.outputs = trial, value, outputs
                break
        else:  # none was kept: the engine has to stand at θ again for the next step
            self._evaluate(self.theta)
        self.steps += 1

    def _directions(self) -> tuple[Tensor, Tensor]:
        """Jᵀμ, and Jᵀ(μ − κ), where Jᵀκ is the part of θ within the span of the gradients."""
        n, decay = self.engine.n, self.settings.weight_decay
        first = self.loss.derivatives(self.outputs, self.targets)[:, 0]
        second = self.loss.curvatures(self.outputs, self.targets)[:, 0]
        gram, moments = self.engine.gram()
        identity = torch.eye(n, dtype=gram.dtype)
        mu = torch.linalg.solve(gram + torch.diag(n * decay / second), moments - first / second)
        kappa = torch.linalg.solve(gram + RIDGE * gram.diagonal().mean() * identity, moments)
        misfit = self.engine.backward((mu - kappa)[:, None]).clone()
        towards = self.engine.backward(mu[:, None]).clone()
        gradient = self.engine.backward(first[:, None] / n).add_(self.theta, alpha=decay)
        self.residual = float(gradient.norm()) / (decay * float(self.theta.norm()))
        return towards, misfit

    def _evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        outputs = self.engine.forward(theta).double()
        norm = float(torch.linalg.vector_norm(theta, dtype=torch.float64))
        value = float(self.loss.values(outputs, self.targets).mean())
        return value + 0.5 * self.settings.weight_decay * norm**2, outputs

    @property
    def finished(self) -> str:
        return ""

    def report(self) -> dict[str, float]:
        loss = float(self.loss.values(self.outputs, self.targets).mean())
        margin = self.loss.smallest_margin(self.outputs, self.targets)
        return {"loss": loss, "margin": margin, "residual": self.residual}

    def state(self) -> dict[str, Tensor]:
        return {"theta": self.theta, "steps": torch.tensor([self.steps])}

    def load(self, state: dict[str, Tensor]) -> None:
        self.theta, self.steps = state["theta"].clone(), int(state["steps"])
        self.value, self.outputs = self._evaluate(self.theta)
