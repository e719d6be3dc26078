"""A network frozen at one θ, in float64: gradients, their Gram matrices and the residuals they leave.

The forward pass is the ReLU's. The backward pass takes slopes to choose: the ReLU's own (1 where
z > 0), or σ(αz), which is what an attacker with a smoothed backward pass works with.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from reconlib.training.products import Products


class Linearised:
    """Φ and ∇Φ at θ over the training set. `engine` must be float64; `theta` is its flat vector."""

    def __init__(self, engine: Products, theta: Tensor):
        if engine.dtype != torch.float64:
            raise TypeError("a certificate is computed in float64")
        self.engine, self.theta = engine, theta.double()
        self.weights, self.biases = engine.views(self.theta)
        z = torch.empty(engine.n, engine.widths[0], dtype=torch.float64)
        engine.first.forward(self.weights[0], None, z)
        self.before = [z]  # pre-activations, layer by layer
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            z = torch.relu(z) @ weight.T
            self.before.append(z if bias is None else z + bias)
        self.norms = torch.stack([layer.norm() for layer in engine.by_layer(self.theta)])

    @property
    def outputs(self) -> Tensor:
        return self.before[-1]

    def slopes(self, alpha: float | None) -> list[Tensor]:
        """Of every hidden layer: the ReLU's for None, else σ(αz)."""
        hidden = self.before[:-1]
        return [(z > 0).double() if alpha is None else torch.sigmoid(alpha * z) for z in hidden]

    def signals(self, derivatives: Tensor, slopes: list[Tensor]) -> Iterator[tuple[int, Tensor]]:
        """(layer, δ) from the last layer to the first."""
        delta = derivatives
        for k in range(len(self.weights) - 1, 0, -1):
            yield k, delta
            delta = (delta @ self.weights[k]) * slopes[k - 1]
        yield 0, delta

    def gradient(self, derivatives: Tensor, slopes: list[Tensor]) -> list[Tensor]:
        """∇ of Σ ⟨derivativesᵢ, Φᵢ⟩ as one flat tensor per layer, like `Products.by_layer`."""
        flat = torch.zeros_like(self.theta)
        weights, biases = self.engine.views(flat)
        for k, delta in self.signals(derivatives, slopes):
            if k == 0:
                self.engine.first.backward(delta.contiguous(), weights[0])
            else:
                weights[k].copy_(delta.T @ torch.relu(self.before[k - 1]))
                if (bias := biases[k]) is not None:
                    bias.copy_(delta.sum(0))
        return self.engine.by_layer(flat)

    def residual(self, derivatives: Tensor, decay: float, slopes: list[Tensor]) -> tuple[float, list[float]]:
        """‖∇ + decay·θ‖ / (decay·‖θ‖), in total and layer by layer."""
        gradients = self.gradient(derivatives, slopes)
        layers = self.engine.by_layer(self.theta)
        norms = torch.stack([(g + decay * w).norm() for g, w in zip(gradients, layers, strict=True)])
        each = norms / (decay * self.norms).clamp_min(torch.finfo(torch.float64).tiny)
        return float(norms.norm() / (decay * self.norms.norm())), each.tolist()

    def grams(self, directions: Tensor, slopes: list[Tensor]) -> tuple[Tensor, Tensor]:
        """For gᵢ = ∇⟨directionsᵢ, Φᵢ⟩, per layer: ⟨gᵢ, gⱼ⟩ `(layers, n, n)` and ⟨θ, gᵢ⟩ `(layers, n)`."""
        n, depth = len(directions), len(self.weights)
        grams = torch.empty(depth, n, n, dtype=torch.float64)
        moments = torch.empty(depth, n, dtype=torch.float64)
        for k, delta in self.signals(directions, slopes):
            moments[k] = (delta * self.before[k]).sum(1)
            if k == 0:
                grams[0] = self.engine.first.gram(delta)
                continue
            h = torch.relu(self.before[k - 1])
            inner = h @ h.T if self.biases[k] is None else h @ h.T + 1
            grams[k] = (delta @ delta.T) * inner
        return grams, moments

    def kkt(
        self, grams: Tensor, moments: Tensor, multipliers: Tensor, layers: list[int]
    ) -> tuple[float, list[float]]:
        """‖θ − Σ λᵢgᵢ‖ / ‖θ‖ over the chosen layers, and layer by layer for all of them."""
        squares = self.norms**2 - 2 * moments @ multipliers + (grams @ multipliers) @ multipliers
        squares = squares.clamp_min(0)
        each = (squares / (self.norms**2).clamp_min(torch.finfo(torch.float64).tiny)).sqrt()
        total = (squares[layers].sum() / (self.norms[layers] ** 2).sum()).sqrt()
        return float(total), each.tolist()
