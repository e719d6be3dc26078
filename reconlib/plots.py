"""Charts of the book: scatter against the boundary, curves with ranges, heat maps, rates and distributions.

Each function draws one finished `Picture` whose alternative text states the numbers to see in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from reconlib.boundary import Boundary
from reconlib.matching import GOOD
from reconlib.picture import (
    CONTROL,
    CYCLE,
    FAINT,
    GRID,
    INK,
    MARKERS,
    RECONSTRUCTION,
    TRAINING,
    Picture,
    look,
    render,
)
from reconlib.rates import Curve


@dataclass(frozen=True)
class Panel:
    """One scatter plot: SSIM of the training images against their distance from the boundary."""

    title: str
    boundary: Boundary
    ssim: ArrayLike  # (n,)
    note: str = ""  # a second line, e.g. training and test error


def scatter(panels: Panel | Sequence[Panel], *, columns: int = 3, threshold: float = GOOD) -> Picture:
    """The papers' scatter for one or several models, with margin and threshold marked; all axes y alike."""
    panels = [panels] if isinstance(panels, Panel) else list(panels)
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with look():
        size = (5.6, 3.6) if len(panels) == 1 else (3.1 * columns, 2.6 * rows)
        figure = Figure(figsize=size)
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        told = []
        for axes, panel in zip(grid.flat, panels, strict=False):
            told.append(_scatter_one(axes, panel, threshold))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_axis_off()
        figure.supxlabel("distance from the boundary", fontsize=9)
        figure.supylabel("SSIM", fontsize=9)
        # Thousands of circles make a heavy SVG.
        points = sum(len(np.asarray(panel.ssim)) for panel in panels)
        alt = "SSIM of each training image against its distance from the boundary. " + " ".join(told)
        return render(figure, alt, "svg" if points <= 1500 else "png")


def _scatter_one(axes: Axes, panel: Panel, threshold: float) -> str:
    x, y = panel.boundary.distance.cpu().numpy(), np.asarray(panel.ssim, dtype=float)
    good = y > threshold
    axes.scatter(x[~good], y[~good], s=9, facecolors="none", edgecolors=CONTROL, linewidths=0.7, alpha=0.8)
    axes.scatter(x[good], y[good], s=14, color=RECONSTRUCTION, linewidths=0)
    axes.axhline(threshold, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    margin = panel.boundary.margin
    if math.isfinite(margin):
        axes.axvline(margin, color=TRAINING, linewidth=1.0)
        axes.annotate("margin", (margin, 1), xycoords=("data", "axes fraction"), xytext=(3, -2),
                      textcoords="offset points", color=TRAINING, fontsize=7, va="top")  # fmt: skip
    if (x <= 0).any():
        axes.axvspan(min(x.min(), 0) * 1.05, 0, color=GRID, alpha=0.6, linewidth=0, zorder=0)
    axes.set_ylim(min(0.0, float(y.min(initial=0))) - 0.02, max(0.8, float(y.max(initial=0)) + 0.12))
    note = f"\n{panel.note}" if panel.note else ""
    axes.set_title(f"{panel.title}\n{int(good.sum())} of {len(y)} above {threshold:g}{note}", fontsize=8.5)
    axes.grid(axis="y")
    best = f", best {y.max():.2f}" if len(y) else ""
    return f"{panel.title}: {int(good.sum())} of {len(y)} above {threshold:g}{best}, margin {margin:.3g}."


@dataclass(frozen=True)
class Series:
    """One line: for each x the values over seeds."""

    name: str
    x: Sequence[float]
    values: Sequence[Sequence[float]]  # one list per x


def curves(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    baselines: Mapping[str, Sequence[float]] | None = None,
    title: str = "",
) -> Picture:
    """Means over seeds with bars from the smallest to the largest value; baselines as level bands."""
    with look():
        figure = Figure(figsize=(5.6, 3.5))
        axes = figure.subplots()
        told = []
        for i, line in enumerate(series):
            mean = np.array([np.mean(v) for v in line.values])
            ends = np.abs(np.array([[np.min(v), np.max(v)] for v in line.values]).T - mean)
            axes.errorbar(line.x, mean, yerr=ends, label=line.name, color=CYCLE[i % 7], marker=MARKERS[i % 7],
                          capsize=2.5, elinewidth=1)  # fmt: skip
            peak = int(mean.argmax())
            told.append(f"{line.name}: {mean[0]:.3g} at {line.x[0]:g}, {mean[-1]:.3g} at {line.x[-1]:g}, "
                        f"highest {mean[peak]:.3g} at {line.x[peak]:g}.")  # fmt: skip
        for i, (name, values) in enumerate((baselines or {}).items()):
            style, colour = ("--", ":", "-.")[i % 3], INK if i % 2 == 0 else FAINT
            axes.axhline(float(np.mean(values)), color=colour, linestyle=style, linewidth=1.1, label=name)
            axes.axhspan(min(values), max(values), color=colour, alpha=0.12, linewidth=0)
            told.append(f"Baseline {name}: {np.mean(values):.3g}.")
        if log_x:
            axes.set_xscale("log")
        axes.set(xlabel=x_label, ylabel=y_label, title=title)
        axes.grid(axis="y")
        axes.legend()
        return render(figure, f"{title or y_label} against {x_label}. " + " ".join(told))


def heat_map(
    values: ArrayLike,
    rows: Sequence[Any],
    columns: Sequence[Any],
    *,
    row_label: str,
    column_label: str,
    value_label: str,
    form: str = "{:.0f}",
    title: str = "",
) -> Picture:
    """Values (rows, columns) with every number written; nan is left blank."""
    table = np.asarray(values, dtype=float)
    if table.shape != (len(rows), len(columns)):
        raise ValueError(f"values {table.shape} do not fit {len(rows)} rows and {len(columns)} columns")
    with look():
        figure = Figure(figsize=(1.9 + 0.62 * len(columns), 1.3 + 0.42 * len(rows)))
        axes = figure.subplots()
        shown = axes.imshow(np.ma.masked_invalid(table), cmap="cividis", aspect="auto")
        for (i, j), value in np.ndenumerate(table):
            if np.isfinite(value):
                r, g, b, _ = shown.to_rgba(np.array([value]))[0]
                ink = "white" if 0.299 * r + 0.587 * g + 0.114 * b < 0.55 else INK
                axes.text(j, i, form.format(value), ha="center", va="center", color=ink, fontsize=8)
        axes.set_xticks(range(len(columns)), [str(c) for c in columns])
        axes.set_yticks(range(len(rows)), [str(r) for r in rows])
        axes.set(xlabel=column_label, ylabel=row_label, title=title)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(shown, ax=axes, label=value_label, shrink=0.9)
        bar.outline.set_visible(False)
        alt = f"Heat map of {value_label} by {row_label} and {column_label}."
        if np.isfinite(table).any():
            i, j = divmod(int(np.nanargmax(table)), len(columns))
            alt += (f" From {form.format(np.nanmin(table))} to {form.format(np.nanmax(table))}, highest at "
                    f"{row_label} {rows[i]}, {column_label} {columns[j]}.")  # fmt: skip
        return render(figure, alt)


def rate_curves(
    curves: Mapping[str, Curve], *, kind: str = "roc", log_x: bool = False, title: str = ""
) -> Picture:
    """ROC curves ("roc", log_x for small false-positive rates) or precision against recall ("precision")."""
    if kind not in ("roc", "precision"):
        raise KeyError(f"unknown kind of curve {kind!r}; choose roc or precision")
    names = ("false-positive rate", "true-positive rate") if kind == "roc" else ("recall", "precision")
    steps = "steps-post" if kind == "roc" else "steps-pre"
    with look():
        figure = Figure(figsize=(4.4, 3.8))
        axes = figure.subplots()
        told = []
        for i, (name, curve) in enumerate(curves.items()):
            label = f"{name} (area {curve.area:.2f})"
            axes.plot(curve.x, curve.y, label=label, color=CYCLE[i % 7], drawstyle=steps)
            told.append(f"{name}: area {curve.area:.2f}.")
        if kind == "roc":
            even = np.linspace(0, 1, 200)
            axes.plot(even, even, color=FAINT, linestyle=":", linewidth=1, label="chance")
        if log_x:
            axes.set_xscale("log")
            axes.set_xlim(1e-3, 1)
        else:
            axes.set_xlim(-0.02, 1.02)
        axes.set(xlabel=names[0], ylabel=names[1], title=title, ylim=(-0.02, 1.02))
        axes.grid()
        axes.legend(loc="best")
        return render(figure, f"{names[1]} against {names[0]}. ".capitalize() + " ".join(told))


def distributions(
    scores: Mapping[str, ArrayLike], *, threshold: float | None = GOOD, x_label: str = "SSIM", title: str = ""
) -> Picture:
    """For each set the share of images above each score; the first is the attack, the others are controls."""
    with look():
        figure = Figure(figsize=(5.6, 3.4))
        axes = figure.subplots()
        told = []
        for i, (name, values) in enumerate(scores.items()):
            name = name.replace("_", " ")
            ordered = np.sort(np.asarray(values, dtype=float))
            above = 1 - np.arange(len(ordered) + 1) / len(ordered)
            x = np.concatenate([ordered, ordered[-1:]])
            width = 2.2 if i == 0 else 1.3
            axes.step(x, above, where="pre", label=name, color=CYCLE[i % 7], linewidth=width,
                      linestyle=("-", "--", "-.", ":")[i % 4])  # fmt: skip
            if threshold is not None:
                told.append(f"{name}: {float((ordered > threshold).mean()):.1%} above {threshold:g}.")
        if threshold is not None:
            axes.axvline(threshold, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xlabel=x_label, ylabel="share of images above", title=title, ylim=(-0.02, 1.02))
        axes.grid()
        axes.legend()
        return render(figure, f"Share of images above each {x_label}. " + " ".join(told))
