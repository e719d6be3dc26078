"""Networks with a convolution in front: grids judged as the paper does, and what might explain a count.

The paper averages more candidates for these networks than for fully connected ones (`BOUND`), and leaves
open why kernels of intermediate size give next to nothing; `EXPLANATIONS` are the quantities to ask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from reconlib.claims import ratio, trend
from reconlib.data.catalogue import dataset_info
from reconlib.experiments import Experiment, run
from reconlib.sweeps import Point, Sweep, measure

BOUND = 1.5  # candidates within this multiple of the best distance are averaged: the paper's value here
MIDDLE = (10, 25)  # the kernels that the claims call intermediate, both ends included
COLLAPSED = 0.25  # of the smallest kernel's count; the bound of the claim on intermediate kernels


def convolution(
    kernel: int = 3,
    channels: int = 32,
    *,
    images: int = 500,
    hidden: int = 1000,
    weight_decay: float = 1e-3,
    train_steps: int | None = None,
    **attack: Any,
) -> Experiment:
    """CONV(kernel, channels)-hidden-1 on vehicles against animals, half of the images each."""
    return Experiment(
        per_class=images // 2,
        hidden=(hidden,),
        kernel=kernel,
        channels=channels,
        weight_decay=weight_decay,
        training=None if train_steps is None else {"steps": train_steps},
        attack=attack,
    )


def pixels(p: Point) -> int:
    """Numbers in one image, d."""
    return math.prod(dataset_info(p.experiment.dataset).shape)


def features(p: Point) -> int:
    """Numbers that the convolution hands on for one image."""
    if p.experiment.kernel is None or p.experiment.channels is None:
        raise ValueError("this network has no convolution in front")
    _, height, width = dataset_info(p.experiment.dataset).shape
    side = p.experiment.kernel - 1
    return p.experiment.channels * (height - side) * (width - side)


def kernel_rank(p: Point, share: float = 0.01) -> int:
    """Directions of the kernels that are above `share` of the strongest one.

    However many channels there are, what they see of a patch are so many numbers.
    """
    return _rank(p, "layers.0.weight", share)


def hidden_rank(p: Point, share: float = 0.01) -> int:
    """Directions of the layer behind the convolution that are above `share` of the strongest one.

    The layer's rows are weighted sums of the images' features. If all of them are combinations of a few
    sums, the features of a single image cannot be told from the sum it is in, whatever the attack.
    """
    return _rank(p, "layers.1.weight", share)


def numbers_held(p: Point) -> int:
    """How many numbers the weights hold about the images, up to these ranks.

    A direction of the kernels is a patch; a direction of the layer behind is, for each place of the kernel
    and each of its directions, a number.
    """
    handed_on, kernel, channels = features(p), p.experiment.kernel or 0, p.experiment.channels or 1
    patch, places = dataset_info(p.experiment.dataset).shape[0] * kernel**2, handed_on // channels
    return kernel_rank(p) * (patch + places * hidden_rank(p))


def _rank(p: Point, layer: str, share: float) -> int:
    features(p)  # only networks with a convolution have such layers
    network = run(p.experiment, controls=(), bound=BOUND).trained.network
    weight = network.state_dict()[layer].double().flatten(1)
    values = torch.linalg.eigvalsh(weight @ weight.T).clamp_min(0.0).sqrt()
    return int((values > share * values.max()).sum())


EXPLANATIONS: dict[str, Callable[[Point], float]] = {
    "features per pixel": lambda p: features(p) / pixels(p),
    "parameters per unknown": lambda p: p.parameters / (pixels(p) * p.n),
    "share on the margin": lambda p: float(p.boundary.on_margin().double().mean()),
    "samples that share the weights": lambda p: p.boundary.effective_support,
    "rank of the kernels": lambda p: float(kernel_rank(p)),
    "rank of the layer behind": lambda p: float(hidden_rank(p)),
    "numbers held per unknown": lambda p: numbers_held(p) / (pixels(p) * p.n),
    "residual of the true images": lambda p: p.certificate.residual,
    "residual of the attack": lambda p: p.residual,
}


def explain(name: str, p: Point) -> float:
    """A number of EXPLANATIONS."""
    if name not in EXPLANATIONS:
        raise KeyError(f"unknown explanation {name!r}; there are {', '.join(EXPLANATIONS)}")
    return float(EXPLANATIONS[name](p))


def explained(points: Iterable[Point], metric: str = "share") -> dict[str, float]:
    """For each explanation the rank correlation with it of a metric of `sweeps`, over the given networks."""
    chosen = list(points)
    values = [measure(metric, p) for p in chosen]
    return {name: trend([explain(name, p) for p in chosen], values) for name in EXPLANATIONS}


def totals(grid: Sweep, seed: int, metric: str = "good") -> dict[int, float]:
    """By kernel, the count of one seed over all channels; the kernel is the first axis of the grid."""
    sums: dict[int, float] = {}
    for key in grid.points:
        (value,) = grid.by_seed(metric, [key])[seed]
        sums[key[0]] = sums.get(key[0], 0.0) + value
    return dict(sorted(sums.items()))


def middle_least(counts: Mapping[int, float]) -> float:
    """The smallest count among intermediate kernels."""
    chosen = [count for kernel, count in counts.items() if MIDDLE[0] <= kernel <= MIDDLE[1]]
    if not chosen:
        raise ValueError(f"no kernel from {MIDDLE[0]} to {MIDDLE[1]} among {', '.join(map(str, counts))}")
    return min(chosen)


def middle_ratio(counts: Mapping[int, float]) -> float:
    """The smallest count among intermediate kernels over the count at the smallest kernel.

    1 where the smallest kernel gives nothing either: from nothing, nothing can fall.
    """
    first = counts[min(counts)]
    return ratio(middle_least(counts), first) if first else 1.0


def full_ratio(counts: Mapping[int, float]) -> float:
    """The count at the largest kernel over the smallest among intermediate ones."""
    return ratio(counts[max(counts)], middle_least(counts))


def channel_trend(grid: Sweep, seed: int) -> float:
    """Rank correlation of the count with the channels, mean over kernels; a grid of (kernel, channels)."""
    kernels = sorted({kernel for kernel, _ in grid.points})
    found = []
    for kernel in kernels:
        keys = sorted(key for key in grid.points if key[0] == kernel)
        found.append(trend([channels for _, channels in keys], grid.by_seed("good", keys)[seed]))
    return sum(found) / len(found)


def collapse(counts: Mapping[int, float]) -> int | None:
    """The first kernel whose count is at most COLLAPSED of the smallest kernel's; None if there is none."""
    first, *later = sorted(counts)
    if not counts[first]:
        return None
    return next((kernel for kernel in later if counts[kernel] <= COLLAPSED * counts[first]), None)
