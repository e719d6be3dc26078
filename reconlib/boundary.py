"""Distance of samples from the decision boundary, and the margin: the x axis of the papers' scatter plots.

The KKT conditions say which samples can come back: those on the margin, whose multiplier is not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid


@dataclass(frozen=True)
class Boundary:
    """Where n samples lie; `distance` is negative for a misclassified one."""

    setting: str
    distance: Tensor  # (n,) float64: y Φ(x), or Φ_y(x) − max_{j≠y} Φ_j(x)
    margin: float  # see `boundary`; nan when no sample is on the right side
    log_multiplier: Tensor  # (n,) float64, log |∂ℓ/∂distance| up to a constant: who holds the weights

    @property
    def errors(self) -> float:
        """Share of samples on the wrong side."""
        return float((self.distance <= 0).double().mean()) if len(self.distance) else 0.0

    def on_margin(self, tolerance: float = 0.1) -> Tensor:
        """(n,) bool: within `tolerance` × margin of the margin, on either side (or short of it)."""
        return self.distance <= (1 + tolerance) * self.margin

    @property
    def effective_support(self) -> float:
        """How many samples share the weights: (Σλ)² / Σλ², from 1 (one does it all) to n (all alike).

        Needs no tolerance, unlike `on_margin`, and stays meaningful when some samples are misclassified.
        0 when every multiplier vanishes, as after an exact fit.
        """
        first, second = self.log_multiplier.logsumexp(0), (2 * self.log_multiplier).logsumexp(0)
        return float((2 * first - second).exp()) if first > -torch.inf else 0.0


def boundary(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    setting: str = "binary",
    *,
    derivative: Callable[[Tensor], Tensor] | None = None,
    batch: int = 1024,
) -> Boundary:
    """Distances of x (n, C, H, W) with labels y (n,) in 0..classes−1 under a trained network.

    - "binary": y Φ with y = ±1; margin = the smallest distance on the right side, multipliers σ(−yΦ).
    - "multiclass": Φ_y − max_{j≠y} Φ_j; margin likewise, multipliers 1 − softmax_y.
    - "regression": y Φ with targets ±1; the margin is the target itself, at 1. `derivative` is |ℓ'| as a
      function of |Φ − y| (default: the squared error's, proportional to |Φ − y|).
    """
    if setting not in SETTINGS:
        raise KeyError(f"unknown setting {setting!r}; choose one of {', '.join(SETTINGS)}")
    with torch.no_grad():
        outputs = torch.cat([network(part) for part in x.split(batch)]) if len(x) else x.new_zeros(0, 1)
    outputs, y = outputs.double().cpu(), y.cpu()
    distance, log_multiplier = SETTINGS[setting](outputs, y, derivative or (lambda error: error))
    right = distance[distance > 0]
    margin = 1.0 if setting == "regression" else float(right.min()) if len(right) else float("nan")
    return Boundary(setting, distance, margin, log_multiplier)


def _signed(outputs: Tensor, y: Tensor) -> Tensor:
    if outputs.shape[1] != 1:
        raise ValueError(f"a network with one output is expected here, this one has {outputs.shape[1]}")
    return (2 * y - 1) * outputs[:, 0]


def _binary(outputs: Tensor, y: Tensor, _: Callable) -> tuple[Tensor, Tensor]:
    distance = _signed(outputs, y)
    return distance, logsigmoid(-distance)


def _multiclass(outputs: Tensor, y: Tensor, _: Callable) -> tuple[Tensor, Tensor]:
    if outputs.shape[1] < 2:
        raise ValueError("the multiclass distance needs a network with at least two outputs")
    own = outputs.gather(1, y[:, None])
    others = outputs.scatter(1, y[:, None], -torch.inf)
    # 1 − softmax_y = σ(logsumexp of the others − Φ_y), which does not underflow at tiny losses.
    return (own - others.amax(1, keepdim=True))[:, 0], logsigmoid(others.logsumexp(1) - own[:, 0])


def _regression(outputs: Tensor, y: Tensor, derivative: Callable) -> tuple[Tensor, Tensor]:
    distance = _signed(outputs, y)
    return distance, derivative((distance - 1).abs()).log()


SETTINGS = {"binary": _binary, "multiclass": _multiclass, "regression": _regression}
