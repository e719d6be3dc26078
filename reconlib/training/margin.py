"""To the limit of the flow: a stationary direction of the smoothed margin, with the scale held fixed.

Gradient flow of a separable loss turns θ towards a KKT point of the max-margin problem, but only as
fast as ‖θ‖ outgrows the start, and the residual at a given loss is what the start has left over. The
direction alone matters (Φ(cθ) = c^L Φ), so here the flow goes on over directions: descend ln L along
the tangent of the sphere and rescale θ so that ln L stays where it was asked to be. Where that ends,
θ = Σ λᵢ ∇Φ(xᵢ) exactly, λᵢ in proportion to −∂ℓ/∂Φᵢ; the random start is gone from every layer.

It is also where decay of strength −⟨∇L, θ⟩/‖θ‖² would hold the network, which `report` gives relative
to the loss: the limits of the flow and of a vanishing decay are the same points.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from reconlib.losses import Loss
from reconlib.training.flow import Flow
from reconlib.training.products import Products
from reconlib.training.settings import DivergenceError, Recipe

SEPARATED = -8.0  # ln L at which every sample is on its side and the flow hands over
FIRST_SHARPNESS = 0.25  # slopes start this much softer: the kinks move into place first
RESCALE = 0.02  # largest change of scale in one step
BETAS = (0.9, 0.99)


class Margin:
    """The flow until the data are separated, then Adam over directions with an annealed rate."""

    def __init__(self, engine: Products, theta: Tensor, loss: Loss, targets: Tensor, settings: Recipe):
        if not all(engine.homogeneous):
            raise ValueError("the margin trainer needs a homogeneous network: bias='first' or 'none'")
        self.engine, self.settings = engine, settings
        self.degree = len(engine.sizes)
        self.flow = Flow(
            engine, theta, loss, targets, replace(settings, lr=0.01, momentum=None, target_log_loss=SEPARATED)
        )
        self.first, self.second = torch.zeros_like(theta), torch.zeros_like(theta)
        self.settled, self.strength, self.residual = 0, math.nan, math.nan

    @property
    def separated(self) -> bool:
        return self.flow.descent.value <= SEPARATED

    def step(self) -> None:
        if not self.settled and not self.separated:
            self.flow.step()
            return
        progress = self.settled / self.settings.settle_steps
        # A smooth anneal of α would rebuild the buffers at every step; eight stages do.
        early = 1 - min(1.0, math.floor(progress * 16) / 8)
        stage = FIRST_SHARPNESS**early
        if self.engine.sharpness != self.settings.sharpness * stage:
            self.engine.sharpness = self.settings.sharpness * stage
        self.settled += 1
        self.level = self.settings.target_log_loss * (SEPARATED / self.settings.target_log_loss) ** early
        self._turn(self.settings.lr * 0.5 * (1 + math.cos(math.pi * progress)))

    def _turn(self, rate: float) -> None:
        descent = self.flow.descent
        theta = descent.theta
        self._rescale()
        descent.refresh()
        gradient = descent.gradient
        self.strength = -float(gradient @ theta / (theta @ theta))
        gradient.add_(theta, alpha=self.strength)
        self.residual = float(gradient.norm() / (self.strength * theta.norm()))
        slow, fast = BETAS
        self.first.lerp_(gradient, 1 - slow)
        self.second.mul_(fast).addcmul_(gradient, gradient, value=1 - fast)
        scale = (self.second / (1 - fast**self.settled)).sqrt_().add_(1e-12)
        norm = float(theta.norm())
        theta.addcdiv_(self.first, scale, value=-rate / (1 - slow**self.settled))
        theta.mul_(norm / float(theta.norm()))

    def _rescale(self) -> None:
        """Move the scale towards the one at which ln L is the target: ln L grows like ‖θ‖^degree."""
        descent = self.flow.descent
        if not descent.value < 0:
            raise DivergenceError(f"the margin was lost (ln L = {descent.value:.3g}): lower lr")
        factor = (self.level / descent.value) ** (1 / self.degree)
        descent.theta.mul_(min(max(factor, 1 - RESCALE), 1 + RESCALE))

    @property
    def theta(self) -> Tensor:
        return self.flow.theta

    @property
    def finished(self) -> str:
        if self.settled >= self.settings.settle_steps:
            return "settled"
        return "minimum" if not self.settled and self.flow.finished == "minimum" else ""

    def report(self) -> dict[str, float]:
        return {**self.flow.report(), "residual": self.residual, "decay_over_loss": self.strength}

    def state(self) -> dict[str, Tensor]:
        numbers = torch.tensor([self.settled, self.strength, self.residual], dtype=torch.float64)
        return {**self.flow.state(), "first": self.first, "second": self.second, "margin": numbers}

    def load(self, state: dict[str, Tensor]) -> None:
        settled, self.strength, self.residual = state["margin"].tolist()
        self.settled = int(settled)
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
        self.flow.load(state)
