"""Shrinking ‖θ‖ without changing the function: what weight decay would do, in one stroke.

Weight decay alone removes the random start at rate × decay per step, thousands of steps where
nothing else happens. Two moves reach the same end at once, both exact for ReLU networks on the
training set: balance each neuron's incoming against its outgoing weights (a rescaling that the
ReLU passes through), and replace each later layer by the smallest one with the same pre-activations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reconlib.training.products import Products

SWEEPS = 3  # balancing one layer unbalances the next; three sweeps leave little to gain


def shrink(engine: Products, theta: Tensor) -> Tensor:
    """A new flat vector with the same outputs on the training set and no larger norm."""
    theta = theta.clone()
    theta[-1] = 0  # the part of W₁ outside the span of the data: no sample sees it
    weights, biases = engine.views(theta)
    for _ in range(SWEEPS):
        for k in range(len(weights) - 1):
            _balance(weights[k], biases[k], weights[k + 1])
    engine.forward(theta)
    for k in range(1, len(weights) - 1):
        _refit(engine.activations[k - 1], weights[k], biases[k])
    return theta


def _balance(incoming: Tensor, bias: Tensor | None, outgoing: Tensor) -> None:
    """Scale unit j by c and its outgoing weights by 1/c so that both have the same norm.

    A unit is a neuron, or a filter that feeds a whole map of columns of the layer above.
    """
    outgoing = outgoing.view(len(outgoing), len(incoming), -1)
    into = incoming.square().sum(1)
    if bias is not None:
        into += bias.square()
    out = outgoing.square().sum((0, 2))
    alive = (into > 0) & (out > 0)
    scale = torch.where(alive, (out / into.clamp_min(1e-38)).pow(0.25), torch.zeros_like(out))
    incoming.mul_(scale[:, None])
    if bias is not None:
        bias.mul_(scale)
    outgoing.mul_(torch.where(alive, 1 / scale.clamp_min(1e-38), torch.zeros_like(out))[:, None])


def _refit(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """The minimum-norm (W, b) with the same W·h + b for every activation row h of the training set."""
    h, w = inputs.double(), weight.double()
    if bias is not None:
        h = torch.cat([h, torch.ones(len(h), 1, dtype=h.dtype)], 1)
        w = torch.cat([w, bias.double()[:, None]], 1)
    if len(h) >= h.shape[1]:
        return  # the activations may span everything: nothing to remove
    values, vectors = torch.linalg.eigh(h @ h.T)
    keep = values > 1e-10 * values[-1]
    vectors, values = vectors[:, keep], values[keep]
    w = ((w @ h.T) @ (vectors / values)) @ (vectors.T @ h)
    weight.copy_(w[:, : weight.shape[1]])
    if bias is not None:
        bias.copy_(w[:, -1])
