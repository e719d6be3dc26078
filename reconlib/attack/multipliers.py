"""Multipliers for fixed candidates by least squares, non-negative where the equation says so."""

from __future__ import annotations

import torch
from torch import Tensor


def solve_multipliers(
    products: Tensor, along: Tensor, *, least: float | None, ridge: float = 1e-9, iterations: int = 2000
) -> Tensor:
    """argmin_λ ‖θ − Σ λ_i g_i‖² from ⟨g_i, g_j⟩ (m, m) and ⟨g_i, θ⟩ (m,), with λ ≥ `least` (None: free).

    Accelerated projected descent in float64, then an exact solve on the multipliers it left free, which
    is kept when it violates nothing.
    """
    k, b = products.double(), along.double()
    m = len(b)
    k = k + ridge * k.diagonal().mean().clamp_min(torch.finfo(torch.float64).tiny) * torch.eye(
        m, dtype=k.dtype, device=k.device
    )
    if least is None:
        return torch.linalg.solve(k, b).to(products.dtype)
    value = _projected(k, b - least * k.sum(1), iterations)
    return (value + least).to(products.dtype)


def _projected(k: Tensor, b: Tensor, iterations: int) -> Tensor:
    """min ½ vᵀKv − bᵀv over v ≥ 0."""
    # Unit diagonal: candidates of very different gradient length would slow the descent down.
    scale = k.diagonal().rsqrt()
    k, b = k * scale[:, None] * scale, b * scale
    step = 1 / float(torch.linalg.matrix_norm(k, 2))
    value = torch.zeros_like(b)
    ahead, pace = value.clone(), 1.0
    for _ in range(iterations):
        slope = k @ ahead - b
        new = (ahead - step * slope).clamp_min_(0)
        move = new - value
        if float((slope * move).sum()) > 0:  # the momentum points uphill: start it anew
            pace = 1.0
        following = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
        ahead = new + (pace - 1) / following * move
        value, pace = new, following
        if float(move.norm()) <= 1e-13 * float(value.norm().clamp_min(1e-300)):
            break
    free = value > 0
    if free.any():
        exact = torch.zeros_like(value)
        exact[free] = torch.linalg.solve(k[free][:, free], b[free])
        if bool((exact >= 0).all()) and _energy(k, b, exact) <= _energy(k, b, value):
            value = exact
    return value * scale


def _energy(k: Tensor, b: Tensor, value: Tensor) -> float:
    return float(0.5 * value @ k @ value - b @ value)
