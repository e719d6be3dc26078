"""Images as differences of neurons: linear algebra on the weights, and no search.

Where the equation holds, row j of the first layer with its bias appended is Σ_i p_ij (v_j·γ_i) (x_i, 1):
p_ij is the slope of the ReLU, v_j what the later layers make of neuron j, γ_i the multipliers of sample i.
Divided by |v_j|, two neurons that no sample tells apart are equal. Two that one sample alone tells apart
differ by a multiple of (x_i, 1), and the last coordinate says by which. Among the closest pairs there are
many of these: training pushes the kinks of the ReLU onto samples, on both sides of which neurons settle.

It rests on v_j being the same for all samples, up to the size: exactly so for one output once the layers
between have lost their random start, roughly for several outputs, where only pairs with parallel v count.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from reconlib.attack.check import check_model
from reconlib.attack.layers import Chain, read_chain

ALIVE = 1e-2  # of the largest row: neurons below it are dead, or keep their start
PLAUSIBLE = (0.07, 0.7)  # root mean square of an image's pixels, the mean image removed
_TYPICAL = 0.25
_ROUNDING = 1e-6  # of the rows: float32 weights say nothing about smaller differences
_BLOCK = 512  # neurons compared with all others at a time


def neuron_differences(
    model: nn.Module, count: int = 2000, *, input_shape: tuple[int, ...] | None = None
) -> tuple[Tensor, Tensor]:
    """Up to `count` images (m, *input_shape) from the closest pairs of neurons, and their multipliers (m,).

    A multiplier is |γ_i| as far as the pair sees it: a neuron that sits on its kink at sample i sees a part.
    Without biases in the first layer a difference has no scale and no sign: it comes at a typical one,
    with both signs and multipliers of 0.
    """
    chain = read_chain(model)
    if chain is None or not has_differences(model):
        raise ValueError(
            "differences of neurons need at least two fully connected layers with ReLU between them: "
            "this model has none that read an image"
        )
    if int(count) != count or count < 1:
        raise ValueError(f"count must be a whole number ≥ 1, not {count}")
    shape = check_model(model, "general", input_shape).input_shape
    rows, above = _rows(chain)
    alive = (rows.norm(dim=1) > ALIVE * rows.norm(dim=1).max()) & (above.norm(dim=0) > 0)
    rows, above = rows[alive], above[:, alive]
    size = above.norm(dim=0)
    rows, above = rows / size[:, None], above / size
    biased = chain.biases[0] is not None
    first, second = _closest(rows, above, count, biased)
    sign = torch.sign((above[:, first] * above[:, second]).sum(0))[:, None]
    difference = rows[first] - sign * rows[second]
    if not biased:
        images = _TYPICAL * math.sqrt(rows.shape[1]) * difference / difference.norm(dim=1, keepdim=True)
        images = torch.cat([images, -images])[:count]
        return images.reshape(-1, *shape).float().cpu(), torch.zeros(len(images))
    images, multipliers = difference[:, :-1] / difference[:, -1:], difference[:, -1].abs()
    return images.reshape(-1, *shape).float().cpu(), multipliers.float().cpu()


def has_differences(model: nn.Module) -> bool:
    """Whether the first layer's neurons each see a whole image, and others follow."""
    chain = read_chain(model)
    return chain is not None and chain.depth > 1 and not chain.convolutional


def _rows(chain: Chain) -> tuple[Tensor, Tensor]:
    """The first layer with its bias as last column (h, d + 1), and every neuron's v (outputs, h)."""
    weights = [w.detach().double() for w in chain.weights]
    bias = chain.biases[0]
    rows = weights[0].flatten(1)
    if bias is not None:
        rows = torch.cat([rows, bias.detach().double()[:, None]], 1)
    above = weights[-1]
    for weight in reversed(weights[1:-1]):
        above = above @ weight
    return rows, above


def _closest(rows: Tensor, above: Tensor, count: int, biased: bool) -> tuple[Tensor, Tensor]:
    """The pairs whose difference is smallest beside the rows, and could be an image."""
    squared = rows.square().sum(1)
    size = squared.sqrt()
    pixels = rows.shape[1] - biased
    costs, pairs = rows.new_empty(0), torch.empty(0, dtype=torch.long, device=rows.device)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(rows)))
        cosine = above[:, block].T @ above
        sign = torch.sign(cosine)
        distance = squared[block, None] + squared - 2 * sign * (rows[block] @ rows.T)
        relative = distance.clamp_min_(0).sqrt() / (size[block, None] + size)
        # Samples that both neurons see cancel as far as their v are parallel.
        cost = relative + (2 - 2 * cosine.abs()).clamp_min_(0).sqrt()
        later = torch.arange(len(rows), device=rows.device) > torch.arange(
            block.start, block.stop, device=rows.device
        ).unsqueeze(1)
        possible = later & (relative > _ROUNDING)
        if biased:
            last = (rows[block, -1:] - sign * rows[:, -1]).square()
            mean_square = (distance - last) / (last * pixels)
            possible &= (mean_square > PLAUSIBLE[0] ** 2) & (mean_square < PLAUSIBLE[1] ** 2)
        index = possible.flatten().nonzero().squeeze(1)
        costs = torch.cat([costs, cost.flatten()[index]])
        pairs = torch.cat([pairs, index + start * len(rows)])
        kept = costs.topk(min(count, len(costs)), largest=False).indices
        costs, pairs = costs[kept], pairs[kept]
    return pairs // len(rows), pairs % len(rows)
