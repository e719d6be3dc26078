"""Loss-scaled gradient flow: descend ln L, so that training never slows down as the loss vanishes.

A step along ∇L / L follows the path of gradient flow in rescaled time (Lyu & Li 2019), and momentum
walks that path faster still. ln L and its derivatives are evaluated in float64 from the margins, so
that losses far below the smallest float stay exact.

Thousands of images in a hundred classes are separated much sooner by mini-batches: with `batch` the way
to a mean loss of `WARM_LOSS` is SGD, and the flow goes on from there.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from reconlib.losses import Loss, log_loss, log_loss_weights
from reconlib.training.descent import Descent, Objective
from reconlib.training.first_order import FirstOrder
from reconlib.training.products import Products
from reconlib.training.settings import Recipe

# Momentum by ln L. Little of it while the loss leaves its plateau: an overshoot there puts weight
# into the first layer that no sample accounts for and that, without decay, nothing removes.
MOMENTUM = ((0.0, 0.5), (-3.0, 0.9), (-30.0, 0.95), (-60.0, 0.97))
# Φ grows with a power of ‖θ‖, so on easy data nothing else would keep ln L from running away.
LEAP, COOLING_LEAP = 0.05, 0.005
# After the target, the rate shrinks step by step: the swings of the momentum die out.
COOLING_STEPS, COOLING_GROWTH, COOLING_MOMENTUM = 120, 0.98, 0.9

WARM_LOSS, WARM_RATE, WARM_MOMENTUM = 0.02, 0.1, 0.9


class Flow:
    """Descent on ln L until it passes the target, then a short cooling; or until no step lowers it."""

    def __init__(self, engine: Products, theta: Tensor, loss: Loss, targets: Tensor, settings: Recipe):
        if not loss.separable:
            raise ValueError(f"the flow trainer needs a separable loss, not {loss.name!r}: use 'stationary'")
        if settings.weight_decay:
            raise ValueError("the flow trainer has no weight decay: use trainer='stationary'")
        self.settings = settings
        self.warm: FirstOrder | None = None
        self.losses: list[float] = []  # of the mini-batches of this epoch
        if settings.batch is not None and settings.batch < engine.n:
            sgd = replace(settings, trainer="sgd", lr=WARM_RATE, momentum=WARM_MOMENTUM, schedule="constant")
            self.warm = FirstOrder(engine, theta, loss, targets, sgd)
        engine.sharpness = settings.sharpness

        def objective(outputs: Tensor) -> Objective:
            margin, of_outputs = loss.soft_margin(outputs, targets)
            value = float(log_loss(margin))
            return Objective(
                value,
                lambda: -log_loss_weights(margin)[:, None] * of_outputs,
                {"log_loss": value, "margin": float(margin.min())},
            )

        start = theta * settings.start_scale
        self.descent = Descent(engine, start, objective, 0.0, settings.lr, settings.momentum or 0.0)
        self.descent.leap = LEAP
        self.cooled = -1  # steps of cooling so far; −1 before it starts

    def step(self) -> None:
        if self.warm is not None:
            self._warm_step(self.warm)
            return
        descent = self.descent
        if self.cooled < 0 and descent.value <= self.settings.target_log_loss:
            self.cooled = 0
        if self.cooled >= 0:
            self.cooled += 1
            descent.momentum, descent.growth = COOLING_MOMENTUM, COOLING_GROWTH
            descent.leap = COOLING_LEAP
        elif self.settings.momentum is None:
            reached = [momentum for level, momentum in MOMENTUM if descent.value <= level]
            descent.momentum = reached[-1] if reached else MOMENTUM[0][1]
        descent.step()

    def _warm_step(self, warm: FirstOrder) -> None:
        """A mini-batch; after an epoch whose mean loss is small, over to the flow."""
        warm.step()
        self.losses.append(warm.value)
        if len(warm.order):
            return
        if sum(self.losses) / len(self.losses) < WARM_LOSS:
            self.descent.theta.copy_(warm.theta)
            self.descent.best, self.warm = math.inf, None
            self.descent.refresh()
        self.losses = []

    @property
    def theta(self) -> Tensor:
        return self.descent.theta if self.warm is None else self.warm.theta

    @property
    def finished(self) -> str:
        if self.cooled >= COOLING_STEPS:
            return "target"
        # No step, however small, lowers the loss: a minimum, so the data cannot be separated.
        return "minimum" if self.descent.rate < 1e-15 * self.settings.lr else ""

    def report(self) -> dict[str, float]:
        if self.warm is not None:
            logarithm = math.log(max(self.warm.value, 1e-300))
            margin = self.warm.margin
            return {"log_loss": logarithm, "margin": margin, "residual": math.nan, "rate": WARM_RATE}
        return {**self.descent.at.report, "residual": self.residual, "rate": self.descent.rate}

    @property
    def residual(self) -> float:
        """Sine of the angle between W₁ and −∂(ln L)/∂W₁: the equation's residual with the loss's own λ."""
        first = slice(self.descent.engine.sizes[0])
        weight, gradient = self.descent.theta[first], self.descent.gradient[first]
        cosine = -float(weight @ gradient) / max(float(weight.norm() * gradient.norm()), 1e-300)
        return math.sqrt(max(0.0, 1 - max(0.0, cosine) ** 2))

    def state(self) -> dict[str, Tensor]:
        warm = {} if self.warm is None else self.warm.state()
        return {
            **self.descent.state(),
            "cooled": torch.tensor([self.cooled]),
            "losses": torch.tensor(self.losses, dtype=torch.float64),
            **{f"warm.{name}": tensor for name, tensor in warm.items()},
        }

    def load(self, state: dict[str, Tensor]) -> None:
        self.cooled, self.losses = int(state["cooled"]), state["losses"].tolist()
        warm = {name.removeprefix("warm."): t for name, t in state.items() if name.startswith("warm.")}
        if warm and self.warm is not None:
            self.warm.load(warm)
        else:
            self.warm = None
        self.descent.load(state)
