"""What one layer contributes to the stationarity loss: its weights, their factors and their residual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


def row_blocks(matrix: Tensor, numbers: int = 1 << 17) -> Iterator[slice]:
    """Slices of rows with about so many numbers each, which stay in a processor's cache from pass to pass."""
    rows = max(1, numbers // max(1, matrix.shape[1]))
    for first in range(0, len(matrix), rows):
        yield slice(first, first + rows)


def squared_norm(tensor: Tensor) -> Tensor:
    """Σ entries², without a copy of the tensor's size."""
    return torch.linalg.vector_norm(tensor).square()


class FirstLayer(Protocol):
    """The layer that reads the candidates: a matrix or a convolution; it holds its own residual."""

    target: float
    width: int

    def forward(self, x: Tensor, out: Tensor) -> None: ...
    def reset(self) -> None: ...
    def subtract(self, delta: Tensor, x: Tensor) -> None: ...
    def weigh(self) -> Tensor: ...
    def tangent(self, x: Tensor, out: Tensor) -> None: ...
    def pull_back(self, delta: Tensor, e: Tensor | None, out: Tensor) -> None: ...
    def gram(self, delta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]: ...


@dataclass
class LaterLayer:
    """A layer behind the first: W, b, their weights in the loss, and the residuals of the step."""

    weight: Tensor
    bias: Tensor | None
    factor: float
    bias_factor: float

    def __post_init__(self) -> None:
        self.residual = torch.empty_like(self.weight) if self.factor else None
        self.bias_residual = (
            torch.empty_like(self.bias) if self.bias is not None and self.bias_factor else None
        )
        self.square = squared_norm(self.weight)
        self.target = self.factor * float(self.square)
        if self.bias is not None:
            self.target += self.bias_factor * float(self.bias.square().sum())
