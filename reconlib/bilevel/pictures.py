"""Pictures of searches over images: strips of images with a name per row, and distances against distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from reconlib.matching import stretch
from reconlib.picture import CYCLE, GROUND, MARKERS, Picture, look, render

_DPI = 100
_GAP = 4


def strips(
    rows: Mapping[str, Tensor], mean: Tensor, *, columns: int = 10, title: str = "", alt: str
) -> Picture:
    """The first `columns` images of each row (n, C, H, W), mean added, with the row's name at its left.

    An image that leaves [0, 1] is stretched to it by itself, as the judge does.
    """
    shown = {name: _visible(images[:columns], mean) for name, images in rows.items()}
    columns = max(len(images) for images in shown.values())
    height, width = mean.shape[1:]
    zoom = max(1, round(64 / width))
    high, wide = zoom * height + _GAP, zoom * width + _GAP
    left, top = 7 * max(len(name) for name in shown) + 8, 26 if title else 0
    size = (max(left + columns * wide, 7 * len(title)), top + len(shown) * high)
    canvas = np.ones((size[1], size[0], 3)) * np.array(to_rgb(GROUND))
    for i, images in enumerate(shown.values()):
        for j, image in enumerate(images):
            pixels = image.permute(1, 2, 0).expand(height, width, 3).numpy()
            down, across = top + i * high, left + j * wide
            canvas[down : down + zoom * height, across : across + zoom * width] = np.kron(
                pixels, np.ones((zoom, zoom, 1))
            )
    with look():
        figure = Figure(figsize=(size[0] / _DPI, size[1] / _DPI), dpi=_DPI)
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.imshow(canvas, interpolation="none", aspect="auto", extent=(0, size[0], size[1], 0))
        axes.axis("off")
        axes.text(_GAP, 13, title, fontsize=9, va="center")
        for i, name in enumerate(shown):
            axes.text(left - 6, top + (i + 0.5) * high, name, fontsize=7.5, ha="right", va="center")
        # Twice the layout's pixels: names stay sharp on a dense screen; the images' pixels stay whole.
        return render(figure, alt, "png", dpi=2 * _DPI)


def _visible(images: Tensor, mean: Tensor) -> Tensor:
    pixels = (images + mean).double().cpu()
    inside = ((pixels >= -1e-6) & (pixels <= 1 + 1e-6)).flatten(1).all(1)
    return stretch(pixels).where(~inside[:, None, None, None], pixels.clamp(0, 1))


def against(
    groups: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    *,
    x_label: str,
    y_label: str,
    floor: float = 1e-7,
    columns: int = 2,
) -> Picture:
    """Panels of points (x, y) by name, y on a log axis cut at `floor`: one panel per group."""
    columns = min(columns, len(groups))
    with look():
        rows = -(-len(groups) // columns)
        figure = Figure(figsize=(3.6 * columns, 2.9 * rows + 0.6))
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        told, names = [], list(dict.fromkeys(name for points in groups.values() for name in points))
        for axes, (group, points) in zip(grid.flat, groups.items(), strict=False):
            for name, pairs in points.items():
                i = names.index(name)
                x, y = np.array(pairs, dtype=float).reshape(-1, 2).T
                axes.scatter(x, np.maximum(y, floor), s=26, color=CYCLE[i % 7], marker=MARKERS[i % 7],
                             linewidths=0, alpha=0.9, label=name)  # fmt: skip
                told.append(f"{group}, {name}: {y.mean():.1e} at {x.mean():.2f}.")
            axes.set(yscale="log", title=group)
            axes.grid()
        for axes in list(grid.flat)[len(groups) :]:
            axes.set_axis_off()
        figure.supxlabel(x_label, fontsize=9)
        figure.supylabel(y_label, fontsize=9)
        handles, shown = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, shown, loc="outside upper center", ncols=3)
        return render(figure, f"{y_label} against {x_label}. " + " ".join(told))
