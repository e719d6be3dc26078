"""Pictures that answer a reader: a slider over pairs, a scatter that shows its images, the film of an attack.

Each is one piece of HTML that needs nothing from outside: images, style and script are inside. Where scripts
do not run, the same images stay, side by side.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from PIL import Image
from torch import Tensor

from reconlib.boundary import Boundary
from reconlib.matching import GOOD, Judgement

_WIDTH, _HEIGHT = 480.0, 330.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 12.0, 44.0


@dataclass(frozen=True)
class Interactive:
    """A finished piece of HTML; a notebook shows it."""

    html: str = field(repr=False)  # a notebook stores the text form as well
    alt: str
    kind: str = "interactive"  # which script and style go with it

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("an interactive picture needs a description: say what it shows")

    def _repr_html_(self) -> str:
        return (
            f"<style>{_asset(self.kind, 'css')}</style>{self.html}<script>{_asset(self.kind, 'js')}</script>"
        )


def slider(
    judgement: Judgement,
    x: Tensor,
    mean: Tensor,
    *,
    count: int = 12,
    by: str = "ssim",
    chosen: Sequence[int] | Tensor | None = None,
) -> Interactive:
    """The best `count` images (or the `chosen` ones): one slider uncovers what the weights gave back.

    x (n, C, H, W) without the mean (C, H, W), as it was judged; `by` is "ssim" or "distance".
    """
    order = judgement.ranking(by) if chosen is None else chosen
    index = [int(i) for i in order][:count]
    if not index:
        raise ValueError("there are no images to show")
    what = "SSIM" if by == "ssim" else "distance"
    scores = judgement.ssim if by == "ssim" else judgement.distance
    training = (x + mean)[index].clamp(0, 1)
    figures = []
    for place, i in enumerate(index):
        caption = f"{what} {float(scores[i]):.2f}"
        figures.append(
            f'<figure><div class="recon-pair">'
            f'<img class="recon-training" src="{_uri(training[place])}" alt="Training image {place + 1}">'
            f'<img class="recon-found" src="{_uri(judgement.reconstruction[i])}" '
            f'alt="Its reconstruction, {caption}"></div><figcaption>{caption}</figcaption></figure>'
        )
    alt = f"{len(index)} training images, each with its reconstruction from the weights."
    body = (
        f'<div class="recon-slider" role="group" aria-label="{alt}">'
        f'<label class="recon-control"><span class="recon-red">training image</span>'
        f'<input type="range" min="0" max="100" value="50" aria-label="Share of the training image shown">'
        f'<span class="recon-blue">from the weights</span></label>'
        f'<div class="recon-grid">{"".join(figures)}</div></div>'
    )
    return Interactive(body, alt)


def hover_scatter(
    judgement: Judgement,
    x: Tensor,
    mean: Tensor,
    boundary: Boundary,
    *,
    threshold: float = GOOD,
    quality: int = 80,
) -> Interactive:
    """SSIM against the distance from the boundary; a point under the pointer shows its pair of images.

    All pairs lie in one sheet of compressed images (WebP at `quality`): 500 photographs take about half a
    megabyte. The range beneath the plot goes through the points from best to worst, for keys and fingers.
    """
    across = boundary.distance.cpu().numpy().astype(float)
    up = judgement.ssim.cpu().numpy().astype(float)
    if not len(up) == len(across) == len(x):
        raise ValueError(f"{len(x)} images, {len(up)} scores and {len(across)} distances are not of one set")
    if not len(up):
        raise ValueError("there are no images to show")
    order = np.argsort(-up, kind="stable")
    axes = _Axes(across, np.append(up, [0.0, max(0.8, float(up.max(initial=0)))]))
    points = []
    for rank, i in enumerate(order):
        told = _told(up, across, i)
        kind = ' class="good"' if up[i] > threshold else ""
        points.append(
            f'<circle{kind} cx="{axes.x(across[i]):.1f}" cy="{axes.y(up[i]):.1f}" r="3.2" role="img" '
            f'tabindex="{-1 if rank else 0}"><title>{told}</title></circle>'
        )
    good = int((up > threshold).sum())
    alt = (
        f"SSIM of {len(up)} training images against their distance from the boundary; {good} above "
        f"{threshold:g}, best {up.max(initial=0):.2f}."
    )
    lines = f'<path class="threshold" d="M{_LEFT} {axes.y(threshold):.1f}H{_WIDTH - _RIGHT}"/>'
    if np.isfinite(boundary.margin):
        at = axes.x(boundary.margin)
        lines += f'<path class="margin" d="M{at:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>'
        lines += f'<text class="margin" x="{at + 4:.1f}" y="{_TOP + 11}">margin</text>'
    sheet, columns = _sheet(
        torch.stack([(x + mean).clamp(0, 1).cpu(), judgement.reconstruction.cpu()], 1)[order.tolist()]
    )
    body = (
        f'<div class="recon-scatter" data-columns="{columns}" data-count="{len(up)}" '
        f'style="--sheet:url({_encode(sheet, "webp", quality)});--columns:{columns};'
        f'--rows:{-(-len(up) // columns)};--x2:{100 / max(2 * columns - 1, 1):.6g}%">'
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="group" aria-label="{html.escape(alt)}">'
        f"{axes.svg('distance from the boundary', 'SSIM')}{lines}<g>{''.join(points)}</g></svg>"
        f'<div class="recon-panel"><div class="recon-two">'
        f'<div class="recon-tile recon-training" role="img" aria-label="training image"></div>'
        f'<div class="recon-tile recon-found" role="img" aria-label="its reconstruction"></div></div>'
        f'<output aria-live="polite">{_told(up, across, order[0])}</output>'
        f'<label class="recon-control">best to worst '
        f'<input type="range" min="0" max="{max(len(up) - 1, 0)}" value="0"></label>'
        f'<p class="recon-hint">Point at a dot, or move the slider.</p></div></div>'
    )
    return Interactive(body, alt)


def film(
    frames: Tensor,
    training: Tensor,
    steps: Sequence[int],
    told: Mapping[str, Sequence[float]] | None = None,
    *,
    stills: int = 6,
) -> Interactive:
    """The candidates of one or several images during an attack, with a button to play and a range to wind.

    frames (k, t, C, H, W) in [0, 1], training (k, C, H, W) in [0, 1]; `told` are numbers to show with each
    of the t frames. Nothing moves before a reader asks for it; without script `stills` frames stay.
    """
    count, length = frames.shape[:2]
    if length != len(steps) or any(len(values) != length for values in (told or {}).values()):
        raise ValueError(f"{length} frames need {length} steps and as many of every number told")
    if training.shape != frames[:, 0].shape:
        raise ValueError(f"training images {tuple(training.shape)} do not fit {tuple(frames.shape)} frames")
    words = [
        "step "
        + ", ".join([f"{step}", *(f"{name} {values[t]:.3g}" for name, values in (told or {}).items())])
        for t, step in enumerate(steps)
    ]
    shown = [round(i * (length - 1) / max(stills - 1, 1)) for i in range(min(stills, length))]
    rows = []
    for image in range(count):
        strip = torch.cat(list(frames[image]), dim=2)
        still = "".join(f'<img src="{_uri(frames[image, t])}" alt="Candidate at {words[t]}">' for t in shown)
        rows.append(
            f'<div class="recon-row"><div class="recon-stills">{still}</div>'
            f'<div class="recon-screen" role="img" aria-label="A candidate during the attack" '
            f'style="--strip:url({_encode(strip, "webp", 85)})"></div>'
            f'<img class="recon-training" src="{_uri(training[image])}" alt="The image it ends at"></div>'
        )
    alt = (
        f"{count} candidates during an attack, from step {steps[0]} to step {steps[-1]}, beside their images."
    )
    body = (
        f'<div class="recon-film" role="group" aria-label="{alt}" style="--frames:{length}" '
        f'data-words="{html.escape("|".join(words))}"><div class="recon-rows">{"".join(rows)}</div>'
        f'<div class="recon-control"><button type="button">Play</button>'
        f'<input type="range" min="0" max="{length - 1}" value="{length - 1}" aria-label="Step of attack">'
        f"<output>{html.escape(words[-1])}</output></div></div>"
    )
    return Interactive(body, alt)


def _told(up: np.ndarray, across: np.ndarray, i: int) -> str:
    return f"SSIM {up[i]:.2f}, distance {across[i]:.3g}"


class _Axes:
    """Where numbers lie in the drawing, with ticks at round values."""

    def __init__(self, across: np.ndarray, up: np.ndarray):
        self.low_x, self.high_x = float(across.min(initial=0)), float(across.max(initial=1))
        self.low_y, self.high_y = float(up.min()), float(up.max()) * 1.05
        span = (self.high_x - self.low_x) or 1.0
        self.low_x, self.high_x = self.low_x - 0.02 * span, self.high_x + 0.03 * span

    def x(self, value: float) -> float:
        share = (value - self.low_x) / (self.high_x - self.low_x)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.low_y) / (self.high_y - self.low_y)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def svg(self, x_label: str, y_label: str) -> str:
        base, parts = _HEIGHT - _BOTTOM, []
        for v in MaxNLocator(6).tick_values(self.low_x, self.high_x):
            if self.low_x <= v <= self.high_x:
                parts.append(f'<text x="{self.x(v):.1f}" y="{base + 17}" text-anchor="middle">{v:g}</text>')
        for v in MaxNLocator(5).tick_values(self.low_y, self.high_y):
            if self.low_y <= v <= self.high_y:
                parts.append(f'<path class="grid" d="M{_LEFT} {self.y(v):.1f}H{_WIDTH - _RIGHT}"/>')
                parts.append(f'<text x="{_LEFT - 6}" y="{self.y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{x_label}</text>')
        parts.append(
            f'<text transform="translate(13 {base / 2 + 10}) rotate(-90)" '
            f'text-anchor="middle">{y_label}</text>'
        )
        return "".join(parts)


def _sheet(pairs: Tensor) -> tuple[Tensor, int]:
    """Pairs (n, 2, C, H, W) side by side in a grid of about equal sides: one image, and pairs per row."""
    n, _, c, h, w = pairs.shape
    columns = max(1, round((n / 2) ** 0.5))
    rows = -(-n // columns)
    filled = torch.zeros(rows * columns, 2, c, h, w)
    filled[:n] = pairs
    grid = filled.reshape(rows, columns, 2, c, h, w).permute(3, 0, 4, 1, 2, 5)
    return grid.reshape(c, rows * h, columns * 2 * w), columns


def _uri(image: Tensor) -> str:
    return _encode(image, "png")


def _encode(image: Tensor, kind: str, quality: int = 80) -> str:
    """An image (C, H, W) in [0, 1] as a data address; grey images become RGB for WebP."""
    pixels = (image.detach().cpu().clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    buffer = io.BytesIO()
    if kind == "png":
        picture.save(buffer, "PNG", optimize=True)
    else:
        picture.convert("RGB").save(buffer, "WEBP", quality=quality, method=6)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@cache
def _asset(kind: str, suffix: str) -> str:
    return Path(__file__).with_name(f"{kind}.{suffix}").read_text(encoding="utf-8")
