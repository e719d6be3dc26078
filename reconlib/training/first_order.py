"""Plain first-order training: the papers' gradient descent, mini-batch SGD, and Adam."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reconlib.losses import Loss
from reconlib.training.products import Products
from reconlib.training.settings import DivergenceError, Recipe

BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's own defaults


class FirstOrder:
    """One step per call on a full batch or a mini-batch; decay is part of the gradient (L2).

    Mini-batches walk through a fresh permutation of the training set per epoch; the last batch of an
    epoch may be smaller. A loss that is not finite, or far above the start's, raises.
    """

    def __init__(self, engine: Products, theta: Tensor, loss: Loss, targets: Tensor, settings: Recipe):
        self.engine, self.loss, self.targets, self.settings = engine, loss, targets, settings
        engine.sharpness = None
        self.theta = theta * settings.start_scale
        self.adam = settings.trainer == "adam"
        self.first = torch.zeros_like(theta)  # momentum, or Adam's first moment
        self.second = torch.zeros_like(theta if self.adam else theta[:0])
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.order = torch.empty(0, dtype=torch.long)
        self.steps = 0
        self.value = self.margin = self.residual = math.nan
        start = float(loss.values(engine.forward(self.theta).double(), targets).mean())
        self.ceiling = 1e3 * max(start, 1.0)
        self._check(start)

    def step(self) -> None:
        rows = self._next_rows()
        targets = self.targets if rows is None else self.targets[rows]
        outputs = self.engine.forward(self.theta, rows).double()
        self.value = float(self.loss.values(outputs, targets).mean())
        self._check(self.value)
        self.margin = self.loss.smallest_margin(outputs, targets)
        gradient = self.engine.backward(self.loss.derivatives(outputs, targets) / len(outputs))
        gradient.add_(self.theta, alpha=self.settings.weight_decay)
        if rows is None and self.settings.weight_decay:
            scale = self.settings.weight_decay * float(self.theta.norm())
            self.residual = float(gradient.norm()) / scale
        self.steps += 1
        self._move(gradient, self._rate())

    def _move(self, gradient: Tensor, rate: float) -> None:
        if not self.adam:
            if self.settings.momentum:
                gradient = self.first.mul_(self.settings.momentum).add_(gradient)
            self.theta.add_(gradient, alpha=-rate)
            return
        self.first.lerp_(gradient, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        scale = torch.div(self.second, 1 - BETAS[1] ** self.steps).sqrt_().add_(EPSILON)
        self.theta.addcdiv_(self.first, scale, value=-rate / (1 - BETAS[0] ** self.steps))

    def _rate(self) -> float:
        if self.settings.schedule == "constant":
            return self.settings.lr
        return self.settings.lr * 0.5 * (1 + math.cos(math.pi * (self.steps - 1) / self.settings.steps))

    def _next_rows(self) -> Tensor | None:
        n, batch = self.engine.n, self.settings.batch
        if batch is None or self.settings.trainer == "paper" or batch >= n:
            return None
        if len(self.order) == 0:
            self.order = torch.randperm(n, generator=self.generator)
        rows, self.order = self.order[:batch], self.order[batch:]
        return rows

    def _check(self, value: float) -> None:
        if not value <= self.ceiling:
            raise DivergenceError(
                f"the loss became {value:.3g} at step {self.steps}: lower lr (now {self.settings.lr:g})"
            )

    @property
    def finished(self) -> str:
        return ""

    def report(self) -> dict[str, float]:
        return {"loss": self.value, "margin": self.margin, "residual": self.residual}

    def state(self) -> dict[str, Tensor]:
        return {
            "theta": self.theta,
            "first": self.first,
            "second": self.second,
            "order": self.order.clone(),
            "generator": self.generator.get_state(),
            "steps": torch.tensor([self.steps]),
        }

    def load(self, state: dict[str, Tensor]) -> None:
        self.theta.copy_(state["theta"])
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
        self.order = state["order"]
        self.generator.set_state(state["generator"])
        self.steps = int(state["steps"])
