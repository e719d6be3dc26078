"""A trained first layer as pictures: a convolution's kernels, or a fully connected layer's rows."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from reconlib.models import Network

_PEAK = (
    0.5  # of a candidate's values: with much less, the mean image that the judge adds is all there is to see
)


def first_layer_images(network: Network, count: int | None = None) -> Tensor:
    """Kernels (C_out, C, k, k) or rows (h, C, H, W) of the first layer, the `count` of largest norm first."""
    weight = cast(Tensor, network.layers[0].weight).detach().float().cpu()
    if weight.dim() == 2:
        weight = weight.reshape(-1, *network.input_shape)
    order = weight.flatten(1).norm(dim=1).argsort(descending=True)
    return weight[order[:count]]


def first_layer_candidates(network: Network) -> Tensor:
    """Every kernel, enlarged to the image's size, or every row, with both signs: (2h, C, H, W).

    Each is scaled to the same largest value, so that the judge sees the pattern, however faint it is.
    """
    shown = enlarged(first_layer_images(network), cast(tuple[int, int], network.input_shape[1:]))
    peak = shown.flatten(1).abs().amax(1).clamp_min(1e-12).view(-1, 1, 1, 1)
    shown = _PEAK * shown / peak
    return torch.cat([shown, -shown])


def enlarged(images: Tensor, size: tuple[int, int], *, blocks: bool = False) -> Tensor:
    """Images (k, C, h, w) at another size: smoothly, or (for the eye) with every pixel as a block."""
    if images.shape[2:] == torch.Size(size):
        return images
    if blocks:
        return interpolate(images, size=size, mode="nearest")
    return interpolate(images, size=size, mode="bilinear", align_corners=False)


def side_by_side(left: Tensor, right: Tensor, columns: int = 8) -> Tensor:
    """Two sets of images (k, C, H, W) in the order of a grid of 2 × `columns`: `left` in its left half."""
    if left.shape[1:] != right.shape[1:]:
        raise ValueError(
            f"{tuple(left.shape[1:])} and {tuple(right.shape[1:])} do not fit one grid: enlarge the smaller"
        )
    rows = min(len(left), len(right)) // columns
    if not rows:
        raise ValueError(f"{len(left)} and {len(right)} images do not fill one row of {columns} each")
    parts = [half[i * columns : (i + 1) * columns] for i in range(rows) for half in (left, right)]
    return torch.cat(parts)
