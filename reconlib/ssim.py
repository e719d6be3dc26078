"""Structural similarity (SSIM) of two batches of images, in the papers' definition and in scikit-image's.

SSIM compares local means, variances and covariance under a small window (Wang et al. 2004):
(2 μa μb + C1)(2 σab + C2) / ((μa² + μb² + C1)(σa² + σb² + C2)), averaged over pixels and channels.
What differs between libraries is the window and the border, so a definition is named, never implied.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad


@dataclass(frozen=True)
class SSIMDefinition:
    """Everything two implementations can disagree on; images are taken to lie in [0, 1]."""

    window: int
    sigma: float | None  # None: uniform window
    padding: str  # "reflect": mirror at the border without repeating it; "valid": only whole windows count
    sample_covariance: bool  # divide by N−1 instead of N inside a window
    k1: float = 0.01
    k2: float = 0.03


DEFINITIONS = {
    # Reproduces the ordering that the papers published; the default everywhere.
    "published": SSIMDefinition(3, 1.5, "reflect", False),
    # skimage.metrics.structural_similarity as it comes, and with its two Gaussian forms.
    "skimage": SSIMDefinition(7, None, "valid", True),
    "skimage_gaussian": SSIMDefinition(11, 1.5, "valid", True),
    "wang": SSIMDefinition(11, 1.5, "valid", False),
}


def definition_of(name: str) -> SSIMDefinition:
    """The registered definition called `name`."""
    if name not in DEFINITIONS:
        raise KeyError(f"unknown SSIM definition {name!r}; choose one of {', '.join(DEFINITIONS)}")
    return DEFINITIONS[name]


def ssim(a: Tensor, b: Tensor, definition: str = "published", *, batch: int = 1024) -> Tensor:
    """SSIM of each pair of images: (n, C, H, W) and (n, C, H, W) in [0, 1] give (n,) float64."""
    chosen = definition_of(definition)
    if a.shape != b.shape or a.ndim != 4:
        raise ValueError(
            f"ssim needs two batches (n, C, H, W) of one shape, got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if min(a.shape[2:]) < chosen.window:
        raise ValueError(
            f"images of {a.shape[2]}×{a.shape[3]} are smaller than the {chosen.window}-pixel window"
        )
    if len(a) == 0:
        return torch.zeros(0, dtype=torch.float64, device=a.device)
    return torch.cat([_ssim_batch(p, q, chosen) for p, q in zip(a.split(batch), b.split(batch), strict=True)])


def _ssim_batch(a: Tensor, b: Tensor, chosen: SSIMDefinition) -> Tensor:
    n, channels = a.shape[:2]
    # E[x²] − E[x]² cancels: in float32 the error would be of the order of C2 in flat regions.
    a = a.double().reshape(n * channels, 1, *a.shape[2:])
    b = b.double().reshape(n * channels, 1, *b.shape[2:])
    kernel = _kernel(chosen).to(a.device)

    def local_mean(image: Tensor) -> Tensor:
        if chosen.padding == "reflect":
            image = pad(image, [chosen.window // 2] * 4, mode="reflect")
        return conv2d(image, kernel)

    mean_a, mean_b = local_mean(a), local_mean(b)
    pixels = chosen.window**2
    unbias = pixels / (pixels - 1) if chosen.sample_covariance else 1.0
    var_a = unbias * (local_mean(a * a) - mean_a**2)
    var_b = unbias * (local_mean(b * b) - mean_b**2)
    cov = unbias * (local_mean(a * b) - mean_a * mean_b)
    c1, c2 = chosen.k1**2, chosen.k2**2
    numerator = (2 * mean_a * mean_b + c1) * (2 * cov + c2)
    denominator = (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    return (numerator / denominator).reshape(n, -1).mean(1)


def _kernel(chosen: SSIMDefinition) -> Tensor:
    if chosen.sigma is None:
        line = torch.ones(chosen.window, dtype=torch.float64)
    else:
        offset = torch.arange(chosen.window, dtype=torch.float64) - chosen.window // 2
        line = torch.exp(-0.5 * (offset / chosen.sigma) ** 2)
    line = line / line.sum()
    return torch.outer(line, line)[None, None]
