"""The distance between given and retrained parameters, and its derivative with respect to the images.

θ(x) minimises E(·; x), so ∇E(θ(x); x) = 0 for all x, and differentiating this gives
∂θ/∂x = −(∇²E)⁻¹ ∂∇E/∂x: one linear system instead of a pass back through the whole training. `unrolled` makes
that pass, and is only there to check.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from reconlib.bilevel.classifier import Training, span
from reconlib.bilevel.curvature import curvature
from reconlib.bilevel.retrain import conjugate_gradients


def implicit(
    training: Training,
    x: Tensor,
    theta: Tensor,
    target: Tensor,
    *,
    solver: Literal["cg", "direct"] = "cg",
    tolerance: float = 1e-8,
) -> tuple[float, Tensor]:
    """½‖θ(x) − θ*‖² and its gradient (n, dimension), where `theta` is θ(x) and `target` θ*."""
    if solver not in ("cg", "direct"):
        raise ValueError(f"unknown solver {solver!r}; choose cg or direct")
    difference = theta - target
    value = 0.5 * float(difference.square().sum())
    basis = span(x)
    inner, coordinates = training.within(basis), x.detach() @ basis.T
    classifier = training.classifier
    _, _, product = curvature(inner, classifier.project(theta, basis), coordinates)
    right = classifier.project(difference, basis)
    if solver == "cg":
        solved = conjugate_gradients(product, right, tolerance)
    else:
        hessian = torch.stack([product(row) for row in torch.eye(len(right), dtype=right.dtype)])
        solved = torch.linalg.solve(hessian, right)
    # Outside the span the Hessian is the decay alone.
    outside = difference - classifier.lift(right, basis)
    direction = classifier.lift(solved, basis) + outside / training.decay
    return value, -mixed(training, x, theta, direction)


def mixed(training: Training, x: Tensor, theta: Tensor, direction: Tensor) -> Tensor:
    """∂/∂x of ⟨∇_θE(θ; x), direction⟩, (n, dimension)."""
    images, at = x.detach().requires_grad_(), theta.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(training.energy(at, images), at, create_graph=True)
    return torch.autograd.grad(gradient @ direction, images)[0]


def unrolled(
    training: Training, x: Tensor, start: Tensor, target: Tensor, *, steps: int, rate: float
) -> tuple[float, Tensor]:
    """The same after `steps` of gradient descent from `start`, by a pass back through all of them."""
    images, theta = x.detach().requires_grad_(), start.detach().requires_grad_()
    for _ in range(steps):
        (gradient,) = torch.autograd.grad(training.energy(theta, images), theta, create_graph=True)
        theta = theta - rate * gradient
    value = 0.5 * (theta - target).square().sum()
    return float(value.detach()), torch.autograd.grad(value, images)[0]


def stationarity(training: Training, x: Tensor, target: Tensor) -> tuple[float, Tensor]:
    """The KKT form: ½‖∇_θE(θ*; x)‖² / decay² and its gradient (n, dimension).

    ∇_θE(θ*; x)/decay = θ* − Σ λ_i ∇Φ(x_i): the distance from θ* to the parameters that the images explain,
    in the units of the bilevel form. No retraining: θ* stays where it is.
    """
    _, gradient, _ = curvature(training, target, x.detach())
    direction = gradient / training.decay
    return 0.5 * float(direction.square().sum()), mixed(training, x, target, direction) / training.decay
