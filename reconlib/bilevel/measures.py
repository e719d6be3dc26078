"""What became of a search over images: how well it explains the weights, how far it moved, whom it found."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reconlib.bilevel.search import Found
from reconlib.bilevel.starts import Parts
from reconlib.matching import GOOD, judge_each


@dataclass(frozen=True)
class Ending:
    """One search, judged; distances between images in units of the training images' contrast."""

    parameter_distance: float  # ‖θ(x) − θ*‖ / ‖θ*‖
    residual: float  # ‖θ* − Σ λ ∇Φ‖ / ‖θ*‖
    to_start: float  # root mean square
    to_truth: float  # each image to the one it stands for, root mean square
    start_to_truth: float  # the same, before the search
    to_member: float  # each image to its nearest training image, mean
    to_control: float  # each image to its nearest image of the control part, mean
    members: float  # share of images with SSIM above 0.4 to their nearest training image
    chance: float  # the same with the control part
    start_members: float  # the same with the training images, before the search


def judge_ending(found: Found, images: Parts) -> Ending:
    """Only a judge may call this: it needs the training images."""
    unit = images.contrast
    return Ending(
        found.parameter_distance,
        found.residual,
        _rms(found.images - found.start) / unit,
        _rms(found.images - images.x) / unit,
        _rms(found.start - images.x) / unit,
        float(nearest(found.images, images.x).mean()) / unit,
        float(nearest(found.images, images.control).mean()) / unit,
        _share(found.images, images.x, images.mean),
        _share(found.images, images.control, images.mean),
        _share(found.start, images.x, images.mean),
    )


def nearest(images: Tensor, others: Tensor) -> Tensor:
    """(n,) root-mean-square pixel distance of each image (n, *image) to the nearest of others (m, *image)."""
    flat, points = images.flatten(1), others.flatten(1)
    return torch.cdist(flat, points).amin(1) / flat.shape[1] ** 0.5


def distinct(ends: Tensor, radius: float) -> int:
    """How many of the end points (k, n, *image) differ: another set of images, whatever its order.

    Two are the same when every image of each has one of the other within `radius`.
    """
    kept: list[Tensor] = []
    for end in ends:
        same = (max(float(nearest(end, k).max()), float(nearest(k, end).max())) <= radius for k in kept)
        if not any(same):
            kept.append(end)
    return len(kept)


def _rms(difference: Tensor) -> float:
    return float(difference.square().mean().sqrt())


def _share(images: Tensor, others: Tensor, mean: Tensor) -> float:
    score, _ = judge_each(images.float(), others.float(), mean)
    return float((score > GOOD).double().mean())
