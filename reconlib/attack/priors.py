"""What images look like in general: pixels lie in a range, and neighbours are alike."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def range_gradient(x: Tensor) -> Tensor:
    """Gradient of Σ relu(|x| − 1)²: with an unknown mean removed, pixels lie in [−1, 1]."""
    return (x - x.clamp(-1, 1)).mul_(2)


def variation_gradient(x: Tensor, input_shape: Sequence[int], smooth: float = 1e-3) -> Tensor:
    """Gradient of the total variation Σ √(∂_h² + ∂_w² + smooth²) of flat images (m, d)."""
    images = x.reshape(-1, *input_shape)
    gradient = torch.zeros_like(images)
    down = images[..., 1:, :-1] - images[..., :-1, :-1]
    right = images[..., :-1, 1:] - images[..., :-1, :-1]
    length = (down.square() + right.square()).add_(smooth**2).sqrt_()
    down, right = down / length, right / length
    gradient[..., 1:, :-1] += down
    gradient[..., :-1, 1:] += right
    gradient[..., :-1, :-1] -= down + right
    return gradient.reshape(x.shape)
