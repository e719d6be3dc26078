"""Images as differences of neurons: linear algebra on the weights, and no search.

Where the equation holds, row j of the first layer with its bias appended is Σ_i s_ij (v_j·γ_i) (x_i, 1):
s_ij is the slope of the ReLU, v_j what the later layers make of neuron j, γ_i the multipliers of sample i.
Divided by |v_j|, two neurons that no sample tells apart are equal. Two that one sample alone tells apart
differ by a multiple of (x_i, 1), and the last coordinate says by which. Nearest neighbours disagree about
few samples, and one of these often outweighs the rest: training pushes the kinks of the ReLU onto samples.

It rests on v_j being the same for all samples, up to the size: for most of them it is, with one output,
once the layers between have lost their random start; with several outputs only pairs with parallel v count.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from reconlib.attack.check import check_model
from reconlib.attack.layers import Chain, read_chain

ALIVE = 1e-2  # of the largest row: neurons below it are dead, or keep their start
PLAUSIBLE = (0.07, 0.7)  # root mean square of an image's pixels, the mean image removed
_TYPICAL = 0.25
_ROUNDING = 1e-6  # of the rows: float32 weights say nothing about smaller differences
_BLOCK = 512  # neurons compared with all others at a time


class Differences(NamedTuple):
    """Candidates in the coordinates that the network reads (mean removed), the closest pair first.

    A multiplier is |γ_i| as far as the pair sees it: a neuron that sits on its kink at sample i sees a part.
    """

    images: Tensor  # (m, *input_shape) float32
    multipliers: Tensor  # (m,)
    neurons: Tensor  # (m, 2) int64: whose difference it is


def neuron_differences(
    model: nn.Module, neighbours: int = 3, *, input_shape: tuple[int, ...] | None = None
) -> Differences:
    """An image from each neuron of the first layer and each of its nearest neighbours.

    Without biases in that layer a difference has no scale and no sign: it comes at a typical one, with
    both signs and multipliers of 0.
    """
    chain = read_chain(model)
    if chain is None or not has_differences(model):
        raise ValueError(
            "differences of neurons need at least two fully connected layers with ReLU between them: "
            "this model has none that read an image"
        )
    if int(neighbours) != neighbours or neighbours < 1:
        raise ValueError(f"neighbours must be a whole number ≥ 1, not {neighbours}")
    shape = check_model(model, "general", input_shape).input_shape
    rows, above = _rows(chain)
    alive = (rows.norm(dim=1) > ALIVE * rows.norm(dim=1).max()) & (above.norm(dim=0) > 0)
    names = alive.nonzero().squeeze(1)
    rows, above = rows[alive], above[:, alive]
    size = above.norm(dim=0)
    rows, above = rows / size[:, None], above / size
    biased = chain.biases[0] is not None
    first, second = _nearest(rows, above, neighbours, biased)
    sign = torch.sign((above[:, first] * above[:, second]).sum(0))[:, None]
    difference = rows[first] - sign * rows[second]
    neurons = torch.stack([names[first], names[second]], 1)
    if biased:
        images, multipliers = difference[:, :-1] / difference[:, -1:], difference[:, -1].abs()
    else:
        images = _TYPICAL * math.sqrt(rows.shape[1]) * difference / difference.norm(dim=1, keepdim=True)
        images, neurons = torch.cat([images, -images]), neurons.repeat(2, 1)
        multipliers = torch.zeros(len(images))
    return Differences(images.reshape(-1, *shape).float().cpu(), multipliers.float().cpu(), neurons.cpu())


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


def _nearest(rows: Tensor, above: Tensor, neighbours: int, biased: bool) -> tuple[Tensor, Tensor]:
    """Every neuron with those nearest to it whose difference could be an image; the closest pairs first."""
    squared = rows.square().sum(1)
    size = squared.sqrt()
    pixels, h = rows.shape[1] - biased, len(rows)
    costs, pairs = [], []
    for start in range(0, h, _BLOCK):
        block = slice(start, min(start + _BLOCK, h))
        cosine = above[:, block].T @ above
        sign = torch.sign(cosine)
        distance = (squared[block, None] + squared - 2 * sign * (rows[block] @ rows.T)).clamp_min_(0)
        relative = distance.sqrt() / (size[block, None] + size)
        # Samples that both neurons see cancel as far as their v are parallel.
        cost = relative + (2 - 2 * cosine.abs()).clamp_min_(0).sqrt()
        possible = relative > _ROUNDING
        possible[torch.arange(block.stop - start), torch.arange(start, block.stop)] = False
        if biased:
            last = (rows[block, -1:] - sign * rows[:, -1]).square()
            mean_square = (distance - last) / (last * pixels)
            possible &= (mean_square > PLAUSIBLE[0] ** 2) & (mean_square < PLAUSIBLE[1] ** 2)
        cost[~possible] = math.inf
        found = cost.topk(min(neighbours, h), dim=1, largest=False)
        own = torch.arange(start, block.stop, device=rows.device)[:, None].expand_as(found.indices)
        ends = torch.stack([torch.minimum(own, found.indices), torch.maximum(own, found.indices)])
        kept = found.values.isfinite()
        costs.append(found.values[kept])
        pairs.append((ends[0] * h + ends[1])[kept])
    # Neurons that are each other's neighbours are one pair.
    unique, where = torch.unique(torch.cat(pairs), return_inverse=True)
    cost = rows.new_empty(len(unique)).scatter_(0, where, torch.cat(costs))
    unique = unique[cost.argsort()]
    return unique // h, unique % h
