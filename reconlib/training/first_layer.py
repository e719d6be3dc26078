"""The two kinds of first layer, as products over the training set: dense in the span, or convolution.

Both fold the bias into the weight matrix as one more column, and both know how to read themselves
from a network's layer and to write themselves back.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconlib.training.span import Span

# Columns are filled up with zeros to a multiple of this many floats: products of rows that start on a
# cache line run up to a third faster, and the matrices behind them in the flat vector stay aligned too.
ALIGNED = 16


class Dense:
    """W₁ in the span of the data; what lies outside is one coordinate along its start direction.

    The loss cannot see that coordinate, weight decay can: together they are an orthonormal frame of
    all the directions training can move W₁ in, so norms and inner products equal the network's own.
    """

    def __init__(self, layer: nn.Linear, span: Span, dtype: torch.dtype):
        self.span, self.has_bias = span, layer.bias is not None
        n, r = span.coordinates.shape
        columns = ALIGNED * math.ceil((r + self.has_bias) / ALIGNED)
        self.inputs = torch.zeros(n, columns, dtype=dtype)
        self.inputs[:, :r] = span.coordinates
        self.inputs[:, r : r + self.has_bias] = 1.0
        self.n, self.rank, self.shape = n, r, (layer.out_features, columns)
        self.width = layer.out_features
        weight = layer.weight.detach().double()
        outside = weight - span.pixels(span.inside(weight))
        norm = float(outside.norm())
        # Rounding alone is no direction.
        self.direction = outside / norm if norm > 1e-12 * float(weight.norm()) else None

    def read(self, layer: nn.Linear) -> tuple[Tensor, float]:
        weight = layer.weight.detach().double()
        matrix = torch.zeros(self.shape, dtype=torch.float64)
        matrix[:, : self.rank] = self.span.inside(weight)
        if self.has_bias:
            matrix[:, self.rank] = layer.bias.detach()
        return matrix, 0.0 if self.direction is None else float((weight * self.direction).sum())

    def write(self, matrix: Tensor, outside: float, layer: nn.Linear) -> None:
        if self.has_bias:
            layer.bias.copy_(matrix[:, self.rank])
        weight = self.span.pixels(matrix[:, : self.rank])
        layer.weight.copy_(weight if self.direction is None else weight + outside * self.direction)

    def forward(self, matrix: Tensor, rows: Tensor | None, out: Tensor) -> None:
        self.batch = self.inputs if rows is None else self.inputs[rows]
        torch.mm(self.batch, matrix.T, out=out)

    def backward(self, delta: Tensor, out: Tensor) -> None:
        torch.mm(delta.T, self.batch, out=out)

    def gram(self, delta: Tensor) -> Tensor:
        """⟨∇W₁Φᵢ, ∇W₁Φⱼ⟩ for back-propagated signals δ `(b, width)` → `(b, b)`."""
        return (delta @ delta.T) * (self.batch @ self.batch.T)


class Convolution:
    """A valid convolution; its output is flattened for the layer above, as in `Network.forward`."""

    direction = None

    def __init__(self, layer: nn.Conv2d, images: Tensor, dtype: torch.dtype):
        self.has_bias, self.images = layer.bias is not None, images.to(dtype).contiguous()
        self.n, self.filters = len(images), layer.weight.shape
        self.shape = (self.filters[0], self.filters[1:].numel() + self.has_bias)
        side = [s - k + 1 for s, k in zip(images.shape[2:], self.filters[2:], strict=True)]
        self.maps = (self.filters[0], *side)
        self.width = self.filters[0] * side[0] * side[1]

    def read(self, layer: nn.Conv2d) -> tuple[Tensor, float]:
        matrix = layer.weight.detach().double().flatten(1)
        if layer.bias is not None:
            matrix = torch.cat([matrix, layer.bias.detach().double()[:, None]], 1)
        return matrix, 0.0

    def write(self, matrix: Tensor, outside: float, layer: nn.Conv2d) -> None:
        if layer.bias is not None:
            layer.bias.copy_(matrix[:, -1])
            matrix = matrix[:, :-1]
        layer.weight.copy_(matrix.reshape(self.filters))

    def forward(self, matrix: Tensor, rows: Tensor | None, out: Tensor) -> None:
        self.batch = self.images if rows is None else self.images[rows]
        self.weight = (matrix[:, :-1] if self.has_bias else matrix).reshape(self.filters)
        bias = matrix[:, -1].contiguous() if self.has_bias else None
        out.copy_(F.conv2d(self.batch, self.weight, bias).flatten(1))

    def backward(self, delta: Tensor, out: Tensor) -> None:
        maps = delta.view(len(delta), *self.maps)
        _, weight, bias = torch.ops.aten.convolution_backward(
            maps, self.batch, self.weight, [self.filters[0]] if self.has_bias else None,
            [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, self.has_bias],
        )  # fmt: skip
        columns = out.shape[1] - self.has_bias
        out[:, :columns] = weight.flatten(1)
        if self.has_bias:
            out[:, -1] = bias

    def gram(self, delta: Tensor) -> Tensor:
        """⟨∇Φᵢ, ∇Φⱼ⟩ over the filters: here the gradients themselves are small enough to keep."""
        maps = delta.view(len(delta), self.maps[0], -1)
        patches = F.unfold(self.batch, self.filters[2:])
        gradients = (maps @ patches.transpose(1, 2)).flatten(1)
        if self.has_bias:
            gradients = torch.cat([gradients, maps.sum(2)], 1)
        return gradients @ gradients.T
