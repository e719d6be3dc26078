"""The span of the data: orthonormal coordinates in which the first layer's gradients live, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """X = coordinates · basis, with orthonormal rows in `basis` (None: every pixel is a coordinate).

    coordinates: `(n, r)`, basis: `(r, d)`; both float64. Any gradient of the first layer, full batch
    or mini-batch, is a combination of the rows of X, so it never leaves this subspace.
    """

    coordinates: Tensor
    basis: Tensor | None

    def inside(self, weight: Tensor) -> Tensor:
        """First-layer weight `(h, d)` → its coordinates `(h, r)`."""
        return weight if self.basis is None else weight @ self.basis.T

    def pixels(self, inside: Tensor) -> Tensor:
        """Coordinates `(h, r)` → `(h, d)`."""
        return inside if self.basis is None else inside @ self.basis


def span_of(x: Tensor, tolerance: float = 1e-10) -> Span:
    """The span of the rows of x `(n, d)`.

    Directions whose singular value is below `tolerance` times the largest are rounding of float64,
    not data: float32 images keep all of theirs.
    """
    x = _flat(x)
    if len(x) >= x.shape[1]:
        return pixel_span(x)
    _, singular, basis = torch.linalg.svd(x, full_matrices=False)
    basis = basis[singular > tolerance * singular[0].clamp_min(torch.finfo(x.dtype).tiny)]
    return Span(x @ basis.T, basis.contiguous())


def pixel_span(x: Tensor) -> Span:
    """The trivial span: every pixel its own direction (training as the papers do it)."""
    return Span(_flat(x), None)


def _flat(x: Tensor) -> Tensor:
    if len(x) == 0:
        raise ValueError("there are no samples to train on")
    return x.flatten(1).double()
