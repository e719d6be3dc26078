"""Where a search over images begins: noise, the training images, images of another part, or a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reconlib.data import Task, load_task


@dataclass(frozen=True, eq=False)
class Parts:
    """Three parts of a data set that share no image, each (n, C, H, W) float64 in one order of labels.

    Image i of every part has label y[i], and all have the mean of the training images removed.
    """

    x: Tensor  # what the given network was trained on
    other: Tensor  # the part that an attacker may start from
    control: Tensor  # a part that nothing was trained on or started from
    y: Tensor
    mean: Tensor
    task: Task

    @property
    def contrast(self) -> float:
        """Root mean square of the training images: the unit of all distances between images."""
        return float(self.x.square().mean().sqrt())


def parts(
    dataset: str = "cifar10",
    task: str = "multiclass",
    per_class: int = 5,
    classes: int | None = None,
    offset: int = 0,
) -> Parts:
    """The first `per_class` images of each label after `offset`, the next as many, and those after them."""
    first = load_task(dataset, task, per_class, classes=classes, test=100, offset=offset)
    third = load_task(dataset, task, per_class, classes=classes, test=100, offset=offset + 2 * per_class)
    by_label = [y.argsort(stable=True) for y in (first.y, first.y_held_out, third.y)]
    control = third.x + third.mean - first.mean
    x, other, control = (
        images[order].double()
        for images, order in zip((first.x, first.x_held_out, control), by_label, strict=True)
    )
    return Parts(x, other, control, first.y[by_label[0]], first.mean, first)


def noise(images: Parts, seed: int = 0) -> Tensor:
    """Normal noise (n, C, H, W) of the images' contrast: a start that knows nothing else of them."""
    generator = torch.Generator().manual_seed(seed)
    return images.contrast * torch.randn(images.x.shape, generator=generator, dtype=torch.float64)


def mixture(truth: Tensor, noise: Tensor, share: float) -> Tensor:
    """share · truth + (1 − share) · noise."""
    if not 0 <= share <= 1:
        raise ValueError(f"the share of truth lies between 0 and 1, not {share}")
    return share * truth + (1 - share) * noise


def named_starts(
    images: Parts, seed: int = 0, shares: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
) -> dict[str, Tensor]:
    """Starts by name: mixtures with the given shares of truth (0 is noise alone), and the other part."""
    random = noise(images, seed)
    names = {0.0: "noise", 1.0: "training images"}
    mixed = {names.get(s, f"{s:.0%} truth"): mixture(images.x, random, s) for s in shares}
    return mixed | {"other images": images.other}
