"""Grids of images as in the papers: training images in red frames, reconstructions in blue ones beneath."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from reconlib.matching import Judgement, stretch
from reconlib.picture import GROUND, INK, RECONSTRUCTION, TRAINING, Picture, look, render

_DPI = 100
_FRAME = 2  # screen pixels
_GAP = 3


def gallery(
    judgement: Judgement,
    x: Tensor,
    mean: Tensor,
    *,
    count: int = 30,
    columns: int = 10,
    by: str = "ssim",
    chosen: Sequence[int] | Tensor | None = None,
    title: str = "",
) -> Picture:
    """The best `count` images (or the `chosen` ones) above their reconstructions, with the score beneath.

    x (n, C, H, W) without the mean (C, H, W), as it was judged; `by` is "ssim" or "distance".
    """
    order = judgement.ranking(by) if chosen is None else chosen
    index = [int(i) for i in order][:count]
    scores = judgement.ssim if by == "ssim" else judgement.distance
    captions = [f"{float(scores[i]):.2f}" for i in index]
    training = (x + mean)[index].clamp(0, 1).cpu()
    what = "SSIM" if by == "ssim" else "distance"
    values = [float(scores[i]) for i in index]
    span = f" {what} from {max(values):.2f} to {min(values):.2f}." if values else ""
    alt = f"{len(index)} training images in red frames, each above its reconstruction in a blue frame.{span}"
    return pairs(
        training,
        judgement.reconstruction[index].cpu(),
        captions,
        columns=columns,
        title=title,
        alt=f"{title}: {alt}" if title else alt,
    )


def pairs(
    training: Tensor,
    reconstruction: Tensor,
    captions: Sequence[str] | None = None,
    *,
    columns: int = 10,
    title: str = "",
    alt: str,
) -> Picture:
    """Rows of `training` and `reconstruction` (k, C, H, W) in [0, 1] in turn, captions beneath each pair."""
    if training.shape != reconstruction.shape:
        raise ValueError(
            f"training {tuple(training.shape)} and reconstruction {tuple(reconstruction.shape)} are not pairs"
        )
    rows: list[tuple[Tensor, str, Sequence[str] | None]] = []
    for start in range(0, len(training), columns):
        part = slice(start, start + columns)
        rows.append((training[part], TRAINING, None))
        rows.append((reconstruction[part], RECONSTRUCTION, captions[part] if captions is not None else None))
    return _draw(rows, columns, title, alt)


def images(
    pictures: Tensor,
    captions: Sequence[str] | None = None,
    *,
    columns: int = 16,
    frame: str = INK,
    stretched: bool = True,
    title: str = "",
    alt: str,
) -> Picture:
    """A plain grid of images (k, C, H, W): candidates, first-layer rows, kernels; `stretched` to [0, 1]."""
    shown = stretch(pictures.detach().cpu().float()) if stretched else pictures.detach().cpu().clamp(0, 1)
    rows: list[tuple[Tensor, str, Sequence[str] | None]] = []
    for start in range(0, len(shown), columns):
        part = slice(start, start + columns)
        rows.append((shown[part], frame, captions[part] if captions is not None else None))
    return _draw(rows, columns, title, alt)


def _draw(
    rows: list[tuple[Tensor, str, Sequence[str] | None]], columns: int, title: str, alt: str
) -> Picture:
    if not rows:
        raise ValueError("there are no images to show")
    height, width = rows[0][0].shape[2:]
    zoom = max(1, round(64 / width))
    cell_h, cell_w = zoom * height + 2 * (_FRAME + _GAP), zoom * width + 2 * (_FRAME + _GAP)
    columns = min(columns, max(len(row[0]) for row in rows))
    tops, total = [], 26 if title else 0
    for _, _, captions in rows:
        tops.append(total)
        total += cell_h + (14 if captions is not None else 0)
    canvas = np.ones((total, columns * cell_w, 3)) * np.array(to_rgb(GROUND))
    for (batch, colour, _), top in zip(rows, tops, strict=True):
        for column, image in enumerate(batch):
            _place(canvas, image, top + _GAP, column * cell_w + _GAP, zoom, colour)
    with look():
        figure = Figure(figsize=(columns * cell_w / _DPI, total / _DPI), dpi=_DPI)
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.imshow(canvas, interpolation="none", aspect="auto", extent=(0, columns * cell_w, total, 0))
        axes.axis("off")
        if title:
            axes.text(_GAP, 13, title, fontsize=9, va="center")
        for (_, _, captions), top in zip(rows, tops, strict=True):
            for column, caption in enumerate(captions or ()):
                axes.text(
                    (column + 0.5) * cell_w, top + cell_h + 6, caption, fontsize=6.5, ha="center", va="center"
                )
        # Twice the layout's pixels: captions stay sharp on a dense screen; the images' pixels stay whole.
        return render(figure, alt, "png", dpi=2 * _DPI)


def _place(canvas: NDArray[np.float64], image: Tensor, top: int, left: int, zoom: int, colour: str) -> None:
    pixels = image.detach().cpu().double().permute(1, 2, 0).numpy()
    if pixels.shape[2] == 1:
        pixels = pixels.repeat(3, axis=2)
    pixels = pixels.repeat(zoom, axis=0).repeat(zoom, axis=1)
    high, wide = pixels.shape[0] + 2 * _FRAME, pixels.shape[1] + 2 * _FRAME
    canvas[top : top + high, left : left + wide] = to_rgb(colour)
    canvas[top + _FRAME : top + high - _FRAME, left + _FRAME : left + wide - _FRAME] = pixels
