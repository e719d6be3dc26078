"""E, its gradient and its Hessian's products with a vector, by hand: ten small matrix products each.

Automatic differentiation gives the same (the tests compare) at ten times the cost for matrices this small.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from reconlib.bilevel.classifier import Training

Product = Callable[[Tensor], Tensor]


def curvature(training: Training, theta: Tensor, x: Tensor) -> tuple[float, Tensor, Product]:
    """E and ∇E (p,) at θ (p,) for images x (n, d), and the map v ↦ ∇²E v."""
    classifier, decay = training.classifier, training.decay
    weight, bias, *later = classifier.split(theta)
    z = torch.addmm(bias, x, weight.T)
    if not later:
        value, slope, bend = _loss(training, z)
        gradient = torch.cat([(slope.T @ x).flatten(), slope.sum(0)]).add_(theta, alpha=decay)

        def affine(v: Tensor) -> Tensor:
            moved, shift = classifier.split(v)
            change = bend(torch.addmm(shift, x, moved.T))
            return torch.cat([(change.T @ x).flatten(), change.sum(0)]).add_(v, alpha=decay)

        return value + _penalty(theta, decay), gradient, affine

    beta = classifier.sharpness
    a, s = softplus(beta * z) / beta, torch.sigmoid(beta * z)
    value, slope, bend = _loss(training, torch.addmm(later[1], a, later[0].T))
    back = slope @ later[0]
    first, curved = back * s, back * (beta * s * (1 - s))
    gradient = _join(first.T @ x, first.sum(0), slope.T @ a, slope.sum(0)).add_(theta, alpha=decay)

    def product(v: Tensor) -> Tensor:
        v1, c1, v2, c2 = classifier.split(v)
        dz = torch.addmm(c1, x, v1.T)
        da = s * dz
        change = bend(torch.addmm(c2, da, later[0].T).addmm_(a, v2.T))
        inner = (change @ later[0]).addmm_(slope, v2).mul_(s).addcmul_(curved, dz)
        outer = (change.T @ a).addmm_(slope.T, da)
        return _join(inner.T @ x, inner.sum(0), outer, change.sum(0)).add_(v, alpha=decay)

    return value + _penalty(theta, decay), gradient, product


def _loss(training: Training, outputs: Tensor) -> tuple[float, Tensor, Product]:
    """Mean loss of outputs (n, k), its slope (n, k), and its Hessian's products with (n, k)."""
    n, y = len(outputs), training.y
    value = float(training.losses(outputs).mean())
    if training.classifier.outputs == 1:
        p = torch.sigmoid(outputs)
        flat = p * (1 - p) / n
        return value, (p - y[:, None].to(p)) / n, lambda change: flat * change
    p = torch.softmax(outputs, 1)
    slope = p.scatter_add(1, y[:, None], -torch.ones_like(p[:, :1])) / n
    return value, slope, lambda change: p * (change - (p * change).sum(1, keepdim=True)) / n


def _penalty(theta: Tensor, decay: float) -> float:
    return 0.5 * decay * float(theta.square().sum())


def _join(*parts: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in parts])
