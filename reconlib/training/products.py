"""Forward and backward passes as plain matrix products, over one flat parameter vector.

The flat vector is an orthonormal frame of the directions that training can move the network in
(see `first_layer`), so a method that is invariant under rotation behaves exactly as it would over
the network's own parameters, at a fraction of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from reconlib.models import Network
from reconlib.training.first_layer import Convolution, Dense
from reconlib.training.span import pixel_span, span_of


class Products:
    """Φ over a fixed training set, and gradients of linear functions of Φ.

    `forward(theta, rows)` → outputs `(b, outputs)`; `backward(derivatives)` → flat gradient of
    Σᵢ ⟨derivativesᵢ, Φ(xᵢ)⟩ where the last forward was. Buffers are reused: a result is valid until
    the next call. The forward pass is the ReLU's; the backward pass uses its slopes too, or σ(αz) with
    α = `sharpness`: a choice from the subdifferential for pre-activations z at the kink, and the
    ReLU's own slope for all others (|z| ≫ 1/α).
    """

    def __init__(self, network: Network, x: Tensor, dtype: torch.dtype, space: str = "span"):
        first, later = network.layers[0], _linear(network)
        self.first: Convolution | Dense
        if isinstance(first, nn.Conv2d):
            self.first = Convolution(first, x.reshape(-1, *network.input_shape), dtype)
        else:
            self.first = Dense(
                cast(nn.Linear, first), span_of(x) if space == "span" else pixel_span(x), dtype
            )
        self.dtype, self.n = dtype, self.first.n
        self._sharpness: float | None = None
        self.widths = [self.first.width, *(layer.out_features for layer in later)]
        self._has_bias = [layer.bias is not None for layer in later]
        shapes = [self.first.shape, *((o, i) for i, o in pairwise(self.widths))]
        self.sizes = [o * i + o * b for (o, i), b in zip(shapes, [False, *self._has_bias], strict=True)]
        self._shapes = shapes
        self.size = sum(self.sizes) + 1
        self.gradient = torch.zeros(self.size, dtype=dtype)
        self._gradient_views = self.views(self.gradient)
        self._buffers: dict[int, tuple[list[Tensor], list[Tensor], list[Tensor]]] = {}

    @property
    def homogeneous(self) -> list[bool]:
        """For each layer after the first: no bias, so that Φ(cθ) = c^L Φ can hold."""
        return [not has_bias for has_bias in self._has_bias]

    @property
    def sharpness(self) -> float | None:
        return self._sharpness

    @sharpness.setter
    def sharpness(self, alpha: float | None) -> None:
        self._sharpness = None if alpha is None or math.isinf(alpha) else alpha
        self._buffers = {}

    def views(self, theta: Tensor) -> tuple[list[Tensor], list[Tensor | None]]:
        """Weight matrices and later biases (None where a layer has none) as views of a flat vector."""
        weights, biases, at = [], [], 0
        for (o, i), has_bias in zip(self._shapes, [False, *self._has_bias], strict=True):
            weights.append(theta[at : at + o * i].view(o, i))
            at += o * i
            biases.append(theta[at : at + o] if has_bias else None)
            at += o * has_bias
        return weights, biases

    def by_layer(self, theta: Tensor) -> list[Tensor]:
        """A flat vector cut into its layers; the coordinate outside the span belongs to the first."""
        first, *later = torch.split(theta[:-1], self.sizes)
        return [torch.cat([first, theta[-1:]]), *later]

    def read(self, network: Network) -> Tensor:
        """The flat vector of a network."""
        theta = torch.zeros(self.size, dtype=torch.float64)
        weights, biases = self.views(theta)
        matrix, theta[-1] = self.first.read(cast(Any, network.layers[0]))
        weights[0].copy_(matrix)
        for weight, bias, layer in zip(weights[1:], biases[1:], _linear(network), strict=True):
            weight.copy_(layer.weight.detach())
            if bias is not None:
                bias.copy_(layer.bias.detach())
        return theta.to(self.dtype)

    @torch.no_grad()
    def write(self, theta: Tensor, network: Network) -> None:
        """Put a flat vector into a network's parameters."""
        weights, biases = self.views(theta.double())
        self.first.write(weights[0], float(theta[-1]), cast(Any, network.layers[0]))
        for weight, bias, layer in zip(weights[1:], biases[1:], _linear(network), strict=True):
            layer.weight.copy_(weight)
            if bias is not None:
                layer.bias.copy_(bias)

    def forward(self, theta: Tensor, rows: Tensor | None = None) -> Tensor:
        self._weights, biases = self.views(theta)
        self._theta, self._rows = theta, rows
        count = self.n if rows is None else len(rows)
        self.activations, self._deltas, self._slopes = self._buffers_for(count)
        self.first.forward(self._weights[0], rows, self.activations[0])
        for k in range(1, len(self._weights)):
            below, out = self.activations[k - 1], self.activations[k]
            if self.sharpness is not None:
                torch.mul(below, self.sharpness, out=self._slopes[k - 1]).sigmoid_()
            below.clamp_min_(0)
            if (bias := biases[k]) is None:
                torch.mm(below, self._weights[k].T, out=out)
            else:
                torch.addmm(bias, below, self._weights[k].T, out=out)
        return self.activations[-1]

    def backward(self, derivatives: Tensor) -> Tensor:
        weights, biases = self._gradient_views
        self.gradient[-1] = 0  # no sample sees what lies outside the span; a caller may have added decay
        for k, delta in self.signals(derivatives):
            if k == 0:
                self.first.backward(delta, weights[0])
                break
            torch.mm(delta.T, self.activations[k - 1], out=weights[k])
            if biases[k] is not None:
                torch.sum(delta, 0, out=biases[k])
        return self.gradient

    def signals(self, derivatives: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield (layer, δ) from the last layer to the first; δ `(b, width)` is ∂/∂(pre-activation)."""
        delta = derivatives.to(self.dtype)
        for k in range(len(self._weights) - 1, 0, -1):
            yield k, delta
            below, active = self._deltas[k - 1], self.activations[k - 1]
            torch.mm(delta, self._weights[k], out=below)
            if self.sharpness is None:
                torch.ops.aten.threshold_backward(below, active, 0, grad_input=below)
            else:
                below.mul_(self._slopes[k - 1])
            delta = below
        yield 0, delta

    def gram(self) -> tuple[Tensor, Tensor]:
        """JJᵀ `(n, n)` and Jθ `(n,)` in float64 for a network with one output, where the last forward was."""
        if self.widths[-1] != 1:
            raise ValueError(f"one gradient per sample needs one output, not {self.widths[-1]}")
        n = len(self.activations[0])
        gram = torch.zeros(n, n, dtype=torch.float64)
        moments = torch.zeros(n, dtype=torch.float64)
        before = torch.empty_like(self.activations[0])
        self.first.forward(self._weights[0], self._rows, before)
        for k, delta in self.signals(torch.ones(n, 1)):
            if k == 0:
                gram += self.first.gram(delta).double()
                moments += (delta * before).sum(1).double()
                continue
            h, weight, bias = self.activations[k - 1], self._weights[k], self.views(self._theta)[1][k]
            inner = h @ h.T if bias is None else h @ h.T + 1
            gram += ((delta @ delta.T) * inner).double()
            z = h @ weight.T if bias is None else torch.addmm(bias, h, weight.T)
            moments += (delta * z).sum(1).double()
        return gram, moments

    def _buffers_for(self, rows: int) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        if rows not in self._buffers:
            if len(self._buffers) > 2:
                self._buffers.clear()
            hidden = self.widths[:-1]
            self._buffers[rows] = (
                [torch.empty(rows, w, dtype=self.dtype) for w in self.widths],
                [torch.empty(rows, w, dtype=self.dtype) for w in hidden],
                [torch.empty(rows, w, dtype=self.dtype) for w in hidden if self.sharpness is not None],
            )
        return self._buffers[rows]


def _linear(network: Network) -> list[nn.Linear]:
    """Every layer after the first."""
    return cast(list[nn.Linear], list(network.layers)[1:])
