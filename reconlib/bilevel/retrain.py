"""The inner problem solved to convergence: Newton steps by conjugate gradients in a trust region."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from reconlib.bilevel.classifier import Training, span
from reconlib.bilevel.curvature import Product, curvature


class NotConverged(RuntimeError):
    """Retraining ended before the gradient vanished, so the implicit derivative would be wrong."""


class Saddle(NotConverged):
    """The gradient vanishes, but E falls along `direction` (coordinates of the images' span)."""

    def __init__(self, direction: Tensor):
        super().__init__("the inner problem is at a saddle, not at a minimum")
        self.direction = direction


@dataclass(frozen=True)
class Retrained:
    """A minimiser of the inner problem."""

    theta: Tensor  # (p,)
    energy: float
    gradient: float  # ‖∇E‖ / (decay · ‖θ‖): bounds the relative error of θ where E is convex
    steps: int


def retrain(
    training: Training, x: Tensor, start: Tensor, *, tolerance: float = 1e-8, most_steps: int = 500
) -> Retrained:
    """The minimiser of E(·; x) that a descent from `start` (p,) leads to; x (n, dimension) float64.

    Solved in the span of the images, where 3,072 pixels become n coordinates; exact, not approximate.
    """
    basis = span(x)
    inner, z = training.within(basis), x.detach() @ basis.T
    theta = training.classifier.project(start, basis)
    radius = 0.1 * max(1.0, float(theta.norm()))
    value, gradient, product = curvature(inner, theta, z)
    for step in range(most_steps):
        scale = training.decay * max(float(theta.norm()), 1e-12)
        size = float(gradient.norm()) / scale
        if size <= tolerance:
            return Retrained(training.classifier.lift(theta, basis), value, size, step)
        move = _steihaug(
            product, gradient, radius, min(0.1, math.sqrt(min(size, 1.0))) * float(gradient.norm())
        )
        predicted = -float(gradient @ move + 0.5 * move @ product(move))
        new_value, new_gradient, new_product = curvature(inner, theta + move, z)
        gained = value - new_value
        # Near the minimum both numbers are rounding; the gradient then decides.
        good = gained > 0.1 * predicted or (
            abs(gained) <= 1e-13 * abs(value) and float(new_gradient.norm()) < float(gradient.norm())
        )
        if good:
            if gained > 0.75 * predicted and float(move.norm()) > 0.99 * radius:
                radius *= 3.0
            theta, value, gradient, product = theta + move, new_value, new_gradient, new_product
        else:
            radius = 0.25 * float(move.norm())
        if radius < 1e-14:
            break
    raise NotConverged(
        f"after {step + 1} steps the gradient is still {size:.2g} of the decay term, not {tolerance:.2g}: "
        "raise decay or tolerance, or lower the classifier's sharpness"
    )


def leave(training: Training, x: Tensor, theta: Tensor, saddle: Saddle, share: float = 1e-3) -> Tensor:
    """θ moved off a saddle by `share` of its length, to the side on which E is lower."""
    basis = span(x)
    inner, z = training.within(basis), x.detach() @ basis.T
    at = training.classifier.project(theta, basis)
    move = saddle.direction * (share * at.norm() / saddle.direction.norm())
    lower = min((at + move, at - move), key=lambda to: float(inner.energy(to, z)))
    return training.classifier.lift(lower, basis)


def conjugate_gradients(
    product: Product, right: Tensor, tolerance: float = 1e-10, most: int = 5000
) -> Tensor:
    """u with ∇²E u = right, to a relative residual of `tolerance`."""
    u, r = torch.zeros_like(right), right.clone()
    p, rr = r.clone(), float(r @ r)
    target = tolerance**2 * rr
    for _ in range(most):
        if rr <= target:
            return u
        hp = product(p)
        bend = float(p @ hp)
        if bend <= 0:
            raise Saddle(p)
        u, r = u + rr / bend * p, r - rr / bend * hp
        rr, before = float(r @ r), rr
        p = r + rr / before * p
    raise NotConverged(f"{most} conjugate-gradient steps left {math.sqrt(rr / target) * tolerance:.2g}")


def _steihaug(product: Product, gradient: Tensor, radius: float, tolerance: float) -> Tensor:
    """A step that lowers gᵀs + ½sᵀHs within ‖s‖ ≤ radius; follows negative curvature to the edge."""
    s, r = torch.zeros_like(gradient), -gradient
    p, rr = r.clone(), float(r @ r)
    for _ in range(10 * len(gradient)):
        if math.sqrt(rr) <= tolerance:
            break
        hp = product(p)
        bend = float(p @ hp)
        step = rr / bend if bend > 0 else math.inf
        if bend <= 0 or float((s + step * p).norm()) >= radius:
            return s + _to_edge(s, p, radius) * p
        s, r = s + step * p, r - step * hp
        rr, before = float(r @ r), rr
        p = r + rr / before * p
    return s


def _to_edge(s: Tensor, p: Tensor, radius: float) -> float:
    a, b, c = float(p @ p), float(s @ p), float(s @ s) - radius**2
    return (-b + math.sqrt(max(b * b - a * c, 0.0))) / a
