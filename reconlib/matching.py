"""Match candidates with the images of a set and score each pair: the judge, who alone sees the training set.

Each candidate serves only the image it is nearest to. An image's reconstruction is the mean of its
candidates within `bound` times the best distance (or the nearest one alone), plus the training mean,
stretched to [0, 1].

Two distances, both Euclidean between normalised images and divided by √(number of values), so in [0, 2]:
- "channel_half": every channel normalised by its own mean and deviation after 3×32×32 images are halved
  (bicubic), as the public code does. Blind to a candidate's colour balance and to fine noise; the default.
- "image": the whole image normalised by one mean and deviation, as the appendix of the paper says.
For grey images the two coincide.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from reconlib.ssim import ssim

GOOD = 0.4  # the papers' threshold on SSIM
_BLOCK = 8_000_000  # distances held at once: 32 MB in float32


@dataclass(frozen=True)
class Judgement:
    """What each of n images got from m candidates; an image that no candidate serves has SSIM 0."""

    ssim: Tensor  # (n,) float64, of the image with its reconstruction
    distance: Tensor  # (n,) to the nearest of the candidates that serve it, inf where there is none
    nearest: Tensor  # (n,) int64, index of that candidate, −1 where there is none
    votes: Tensor  # (n,) int64, how many candidates were averaged
    reconstruction: Tensor  # (n, C, H, W) in [0, 1]
    serves: Tensor  # (m,) int64, the image each candidate is nearest to, −1 where a candidate is not finite
    candidate_distance: Tensor  # (m,) distance of each candidate to that image

    def count(self, threshold: float = GOOD) -> int:
        """How many images have an SSIM above `threshold`."""
        return int((self.ssim > threshold).sum())

    @property
    def good(self) -> int:
        """The papers' count: images with SSIM above 0.4."""
        return self.count(GOOD)

    @property
    def best(self) -> float:
        """Highest SSIM of all images (0 without any)."""
        return float(self.ssim.max()) if len(self.ssim) else 0.0

    def ranking(self, by: str = "ssim") -> Tensor:
        """Image indices, best first, by "ssim" or by "distance".

        MNIST is ranked by distance: most of a digit is flat background, where SSIM rewards an exactly
        black reconstruction and punishes faint noise, so that even readable digits stay below 0.4.
        """
        if by not in ("ssim", "distance"):
            raise KeyError(f"unknown ranking {by!r}; choose ssim or distance")
        return self.ssim.argsort(descending=True) if by == "ssim" else self.distance.argsort()


def judge(
    candidates: Tensor,
    x: Tensor,
    mean: Tensor,
    *,
    distance: str = "channel_half",
    bound: float = 1.1,
    mode: str = "mean",
    definition: str = "published",
) -> Judgement:
    """Match candidates (m, C, H, W) with images x (n, C, H, W), both without the mean (C, H, W).

    mode "mean" averages the candidates within `bound` of the best, "nearest" takes the best alone.
    """
    if mode not in ("mean", "nearest"):
        raise KeyError(f"unknown mode {mode!r}; choose mean or nearest")
    if mode == "mean" and bound < 1:
        raise ValueError(f"bound is a multiple of the best distance and cannot be below 1, got {bound}")
    if candidates.shape[1:] != x.shape[1:] or x.shape[1:] != mean.shape:
        raise ValueError(
            f"candidates {tuple(candidates.shape)}, images {tuple(x.shape)} and mean {tuple(mean.shape)} "
            "do not have one image shape"
        )
    candidates, mean = candidates.detach().to(x), mean.to(x)
    serves, candidate_distance = assign(candidates, x, distance)

    n, served = len(x), (serves >= 0).nonzero().squeeze(1)
    owner, reach = serves[served], candidate_distance[served]
    best = torch.full((n,), torch.inf, dtype=x.dtype, device=x.device).scatter_reduce(0, owner, reach, "amin")
    first = torch.where(reach == best[owner], served, len(candidates))
    nearest = torch.full((n,), len(candidates), device=x.device).scatter_reduce(0, owner, first, "amin")
    found = nearest < len(candidates)
    nearest = torch.where(found, nearest, -1)

    chosen = reach <= bound * best[owner] if mode == "mean" else served == nearest[owner]
    votes = torch.zeros(n, dtype=torch.int64, device=x.device).index_add(0, owner, chosen.long())
    total = torch.zeros_like(x).index_add(0, owner[chosen], candidates[served[chosen]])
    reconstruction = stretch(total / votes.clamp_min(1).view(-1, 1, 1, 1) + mean)
    score = torch.zeros(n, dtype=torch.float64, device=x.device)
    score[found] = ssim((x + mean)[found], reconstruction[found], definition)
    reconstruction[~found] = 0
    return Judgement(score, best, nearest, votes, reconstruction, serves, candidate_distance)


def judge_each(
    candidates: Tensor,
    x: Tensor,
    mean: Tensor,
    *,
    distance: str = "channel_half",
    definition: str = "published",
) -> tuple[Tensor, Tensor]:
    """SSIM (m,) of every candidate by itself with its nearest image, and that image's index (m,) or −1."""
    candidates, mean = candidates.detach().to(x), mean.to(x)
    serves, _ = assign(candidates, x, distance)
    score = torch.zeros(len(candidates), dtype=torch.float64, device=x.device)
    valid = serves >= 0
    score[valid] = ssim((x + mean)[serves[valid]], stretch(candidates[valid] + mean), definition)
    return score, serves


def assign(candidates: Tensor, x: Tensor, distance: str = "channel_half") -> tuple[Tensor, Tensor]:
    """Nearest image of each candidate and the distance to it: (m, ...), (n, ...) give (m,) and (m,)."""
    serves = torch.full((len(candidates),), -1, dtype=torch.int64, device=x.device)
    reach = torch.full((len(candidates),), torch.inf, dtype=x.dtype, device=x.device)
    if len(x) == 0:
        return serves, reach
    images = normalise(x, distance)
    squared = images.square().sum(1)
    finite = candidates.flatten(1).isfinite().all(1).nonzero().squeeze(1)
    for block in finite.split(max(1, _BLOCK // len(x))):
        points = normalise(candidates[block], distance)
        # argmin ‖c − x‖² over x: ‖c‖² is the same for all of them.
        owner = torch.addmm(squared, points, images.T, alpha=-2).argmin(1)
        serves[block] = owner
        # The product form loses digits near zero; for the one pair that counts the difference is cheap.
        reach[block] = (points - images[owner]).square().mean(1).sqrt()
    return serves, reach


def normalise(images: Tensor, distance: str = "channel_half") -> Tensor:
    """Images (n, C, H, W) as vectors (n, d) in which the named distance is Euclidean (times √d)."""
    if distance == "channel_half":
        if images.shape[1:] == (3, 32, 32):
            images = interpolate(images, scale_factor=0.5, mode="bicubic", align_corners=False)
        groups = images.flatten(2)
    elif distance == "image":
        groups = images.flatten(1).unsqueeze(1)
    else:
        raise KeyError(f"unknown distance {distance!r}; choose channel_half or image")
    centred = groups - groups.mean(2, keepdim=True)
    deviation = centred.square().mean(2, keepdim=True).sqrt()
    # A constant channel carries no pattern: it becomes zero, not noise blown up to unit size.
    return torch.where(deviation > 1e-12, centred / deviation.clamp_min(1e-12), 0.0).flatten(1)


def stretch(images: Tensor) -> Tensor:
    """Each image (n, C, H, W) rescaled so that its values run from 0 to 1; a constant image becomes 0."""
    flat = images.flatten(1)
    low, high = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    return ((flat - low) / (high - low).clamp_min(1e-12)).reshape(images.shape)
