"""The span of the training images, read off the first layer's singular values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from reconlib.attack.products import Products

# A direction this far below the first one still gets a finite weight.
_FLOOR = 1e-4
_CLEAR_GAP = 3.0
_LEADING = 8


@dataclass(frozen=True)
class Spectrum:
    """Singular values of a first layer, and the rank they speak for.

    `gap` is the ratio of the last counted value to the first one left out; `noise` the upper edge of
    what lies behind it (0: nothing does).
    """

    singular_values: Tensor
    rank: int
    gap: float
    noise: float

    @property
    def revealing(self) -> bool:
        """Whether the layer is wider than the span it shows, so that the span is all of the data's."""
        return self.rank < len(self.singular_values)


def spectrum(weight: Tensor) -> tuple[Spectrum, Tensor]:
    """The spectrum of a first layer (h, d) and all its right singular vectors (min(h, d), d), in float64."""
    _, values, vectors = torch.linalg.svd(weight.flatten(1).double(), full_matrices=False)
    rank, noise = estimate_rank(values, weight.flatten(1).shape)
    following = float(values[rank]) if rank < len(values) else 0.0
    gap = float(values[rank - 1]) / following if following > 0 else math.inf
    return Spectrum(values, rank, gap, noise), vectors


def estimate_rank(values: Tensor, shape: tuple[int, ...] | torch.Size) -> tuple[int, float]:
    """Directions that carry data, and the upper edge of the noise below them.

    Training adds to the first layer only within the span of the data. Where the rest has decayed, or
    started small, the values drop by a clear factor behind that span. Otherwise the rest keeps the
    start's independent entries, whose singular values fill ε(√d ± √h) (Marchenko and Pastur), and what
    stands above that edge counts; ε comes from the median of the values not yet counted, again and
    again until the count stays.
    """
    h, d = sorted(shape)
    # What storing the weights in float32 alone would leave behind.
    rms = float(values.square().sum().sqrt()) / math.sqrt(h * d)
    rounding = torch.finfo(torch.float32).eps / 2 * rms * (math.sqrt(h) + math.sqrt(d))
    visible = max(int((values > rounding).sum()), 1)
    gaps = values[:visible] / torch.cat([values[1:], values.new_zeros(1)])[:visible].clamp_min(rounding)
    if visible == len(values):
        gaps = gaps[:-1]
    gaps[: min(_LEADING, len(gaps) // 2)] = 0  # the largest few differ by large factors for any data
    if len(gaps) and float(gaps.max()) > _CLEAR_GAP:
        rank = int(gaps.argmax()) + 1
        return rank, float(values[rank]) if rank < len(values) else 0.0
    rank, edge = 0, 0.0
    while visible - rank >= max(8, 0.02 * h):
        epsilon = float(values[rank:visible].median()) / _median_of_noise(h - rank, d - rank)
        edge = epsilon * (math.sqrt(h - rank) + math.sqrt(d - rank))
        counted = int((values > 1.03 * edge).sum())
        if counted <= rank:
            return max(rank, 1), edge
        rank = counted
    return visible, 0.0


def _median_of_noise(h: int, d: int) -> float:
    """Median singular value of an (h, d) matrix of independent N(0, 1) entries, h ≤ d, by its limit law."""
    ratio = h / d
    low, high = (1 - math.sqrt(ratio)) ** 2, (1 + math.sqrt(ratio)) ** 2
    # x = middle + radius·cos t turns the density √((high−x)(x−low))/x dx into a smooth one
    angle = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    x = (high + low) / 2 - (high - low) / 2 * torch.cos(angle)
    mass = torch.cumulative_trapezoid(torch.sin(angle).square() / x.clamp_min(1e-12), angle)
    median = x[1:][int((mass < mass[-1] / 2).sum())]
    return math.sqrt(float(median) * d)


@dataclass(frozen=True)
class RowSpace:
    """x = (τ∘u) V with orthonormal rows V (r, d): candidates u (m, r) that cannot leave the span."""

    basis: Tensor  # V
    stretch: Tensor  # τ, (r,)
    column_weights: Tensor  # q², (r,)
    spectrum: Spectrum

    def __post_init__(self) -> None:
        object.__setattr__(self, "_map", (self.basis * self.stretch[:, None]).contiguous())
        object.__setattr__(self, "_inverse", (self.basis / self.stretch[:, None]).contiguous())

    @property
    def dimension(self) -> int:
        return len(self.basis)

    def to_pixels(self, u: Tensor, products: Products | None = None) -> Tensor:
        """(m, r) → (m, d)."""
        return _product(u, self._map, products)  # type: ignore[attr-defined]

    def from_pixels(self, x: Tensor) -> Tensor:
        """The coordinates of the nearest point of the span."""
        return x @ self._inverse.T  # type: ignore[attr-defined]

    def pull_back(self, gradient: Tensor, products: Products | None = None) -> Tensor:
        """A gradient in pixels as a gradient in coordinates."""
        return _product(gradient, self._map.T, products)  # type: ignore[attr-defined]


def _product(a: Tensor, b: Tensor, products: Products | None) -> Tensor:
    return a @ b if products is None else products.mm(a, b, a.new_empty(len(a), b.shape[1]))


def row_space(
    weight: Tensor, rank: int | Literal["auto"] = "auto", *, spread: float = 0.0, whitening: float = 0.0
) -> RowSpace:
    """The row space of a first layer (h, d), from the weights alone.

    With s_k the k-th singular value over the first, τ_k = s_k^spread: a direction in which the data
    vary little gets small steps. q_k = s_k^−whitening: the error of a trained network's own equation
    falls like √s_k, so that 1/2 weighs the residual by its inverse deviation.
    """
    found, vectors = spectrum(weight)
    kept = found.rank if rank == "auto" else min(rank, len(vectors))
    relative = found.singular_values[:kept] / found.singular_values[0] + _FLOOR
    return RowSpace(
        vectors[:kept].to(weight),
        (relative**spread).to(weight),
        (relative ** (-2 * whitening)).to(weight),
        found,
    )


@dataclass(frozen=True)
class Pixels:
    """The trivial search space: candidates are pixels."""

    dimension: int

    def to_pixels(self, u: Tensor, products: Products | None = None) -> Tensor:
        return u

    def from_pixels(self, x: Tensor) -> Tensor:
        return x

    def pull_back(self, gradient: Tensor, products: Products | None = None) -> Tensor:
        return gradient
