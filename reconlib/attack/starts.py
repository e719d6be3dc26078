"""Where a search begins: noise, given images, or a mixture of both."""

from __future__ import annotations

import torch
from torch import Tensor

from reconlib.attack.equations import Equation
from reconlib.attack.rowspace import Pixels, RowSpace


def start_candidates(
    space: Pixels | RowSpace,
    m: int,
    scale: float,
    generator: torch.Generator,
    *,
    images: Tensor | None = None,
    noise_share: float = 1.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Coordinates (m, dimension): (1 − share)·images + share·N(0, scale²).

    Fewer images than candidates are used several times. Without images the start is noise alone.
    """
    # Drawn in float64 on the processor, so that a seed means the same start for every type and device.
    noise = scale * torch.randn(m, space.dimension, generator=generator, dtype=torch.float64)
    noise = noise.to(device=device, dtype=dtype)
    if images is None or noise_share == 1.0:
        return noise
    flat = images.detach().flatten(1).to(device=device, dtype=dtype)
    given = space.from_pixels(flat[torch.arange(m, device=device) % len(flat)])
    return (1 - noise_share) * given + noise_share * noise


def start_multipliers(
    equation: Equation, m: int, columns: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Tensor:
    """U[0, 1) where multipliers are non-negative, N(0, 1) where their sign is free; (m, columns)."""
    draw = torch.rand if equation.positive else torch.randn
    return draw(m, columns, generator=generator, dtype=torch.float64).to(dtype)
