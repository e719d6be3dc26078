"""Points in the plane: where images have two pixels, an attack can be watched step by step.

A task on a circle, the path of an attack's candidates, how close they come, and a picture of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from reconlib.attack import AttackSettings
from reconlib.attack.problem import build_problem
from reconlib.attack.search import Search
from reconlib.data import Task
from reconlib.picture import CYCLE, INK, TRAINING, Picture, look, render

LABEL_COLOURS = (CYCLE[1], CYCLE[0])  # of label 0 and label 1
LABEL_TINTS = ("#f6e3d3", "#d8e7f1")
LABEL_MARKERS = ("s", "o")


def circle(n: int = 20) -> Task:
    """n points evenly spaced on the unit circle with labels in turn; the points halfway are held out.

    Every point then has both neighbours on the other side, so that all of them lie on the margin.
    """
    if n < 4 or n % 2:
        raise ValueError(f"labels take turns around the circle: n must be even and at least 4, not {n}")
    angle = 2 * math.pi * torch.arange(n, dtype=torch.float64) / n
    x, between = (torch.stack([a.cos(), a.sin()], 1).float() for a in (angle, angle + math.pi / n))
    y, index = torch.arange(n) % 2, torch.arange(n)
    checksum = hashlib.sha256(x.numpy().tobytes() + y.numpy().tobytes()).hexdigest()
    return Task(
        name=f"plane/circle/{n // 2}", x=x, y=y, x_test=x, y_test=y, x_held_out=between, y_held_out=y,
        mean=torch.zeros(2), classes=2, checksum=checksum, dataset="plane", label_names=("square", "round"),
        train_indices=index, held_out_indices=index + n, test_indices=index,
    )  # fmt: skip


def spacing(points: Tensor) -> float:
    """The smallest distance between two of the points (n, 2)."""
    return float(torch.pdist(points.double()).min())


@dataclass(frozen=True)
class Path:
    """Where the candidates of one attack were: `candidates` (k, m, 2) after `steps` (k,), 0 is the start."""

    steps: tuple[int, ...]
    candidates: Tensor
    labels: Tensor  # (m,)
    multipliers: Tensor  # (m,) at the end
    residual: float  # at the end

    @property
    def end(self) -> Tensor:
        return self.candidates[-1]


def follow(model: nn.Module, settings: AttackSettings, steps: Sequence[int] = ()) -> Path:
    """Run one attack on `model` and keep the candidates at the start, after `steps` and at the end."""
    wanted = {0, *steps, settings.steps}
    beyond = [step for step in wanted if not 0 <= step <= settings.steps]
    if beyond:
        raise ValueError(f"the attack has {settings.steps} steps, so there is no step {max(beyond)}")
    problem = build_problem(model, settings)
    assert problem.labels is not None, "points in the plane are attacked with the binary equation"
    search = Search(problem, settings)
    seen = {0: problem.space.to_pixels(search.u).clone()}

    def keep(at: Search) -> None:
        if at.step in wanted:
            seen[at.step] = problem.space.to_pixels(at.u).clone()

    search.advance(keep)
    x, multipliers, residual = search.finish()
    seen[settings.steps] = x
    order = sorted(seen)
    return Path(
        tuple(order), torch.stack([seen[step] for step in order]).float().cpu(), problem.labels.cpu(),
        (multipliers[:, 0] * problem.multiplier_unit()).cpu(), residual,
    )  # fmt: skip


def reached(points: Tensor, candidates: Tensor, radius: float) -> Tensor:
    """(n,) bool: which of the points (n, 2) have one of the candidates (m, 2) within `radius`."""
    return nearest(points, candidates) <= radius


def nearest(points: Tensor, others: Tensor) -> Tensor:
    """(n,) distance of each of the points (n, 2) to the nearest of the others (m, 2)."""
    return torch.cdist(points.double(), others.double()).amin(1)


def stepped(path: Path, task: Task, model: nn.Module, *, limit: float = 1.7, columns: int = 3) -> Picture:
    """The plane at each kept step: the model's two sides, the training points, and the candidates."""
    rows = math.ceil(len(path.steps) / columns)
    sides = _outputs(model, limit)
    radius = spacing(task.x) / 10
    with look():
        figure = Figure(figsize=(2.9 * columns, 2.95 * rows + 0.3))
        grid = figure.subplots(rows, columns, squeeze=False)
        told = []
        for axes in grid.flat:
            axes.set_axis_off()
        for axes, step, candidates in zip(grid.flat, path.steps, path.candidates, strict=False):
            _plane(axes, sides, limit)
            _points(axes, task, candidates, path.labels)
            found = int(reached(task.x, candidates, radius).sum())
            name = "start" if step == 0 else f"step {step:,}"
            axes.set_title(f"{name}: {found} of {len(task.x)} points reached", fontsize=8.5)
            told.append(f"{name}: {found} of {len(task.x)} points reached.")
        handles, names = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4)
        alt = (f"Candidates in the plane at {len(path.steps)} steps of the attack, with the model's decision "
               f"boundary and the training points. {' '.join(told)}")  # fmt: skip
        return render(figure, alt, "png", dpi=130)


def closeness(distances: Mapping[str, Tensor], *, mark: float, x_label: str) -> Picture:
    """For each set of distances (m,) the share within each distance, with a line at `mark`."""
    with look():
        figure = Figure(figsize=(5.6, 3.7))
        axes = figure.subplots()
        told = []
        for i, (name, values) in enumerate(distances.items()):
            share = np.arange(1, len(values) + 1) / len(values)
            axes.step(values.sort().values, share, where="post", label=name, color=CYCLE[i % 7],
                      linewidth=2.2 if i == 0 else 1.3, linestyle=("-", "--", "-.", ":")[i % 4])  # fmt: skip
            told.append(f"{name}: {float((values <= mark).double().mean()):.0%} within {mark:g}.")
        axes.axvline(mark, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xscale="log", xlabel=x_label, ylabel="share of candidates within", ylim=(-0.02, 1.02))
        axes.grid()
        figure.legend(loc="outside upper left", ncols=2)
        return render(figure, f"Share of candidates within each {x_label}. {' '.join(told)}")


def _plane(axes: Axes, sides: tuple[NDArray, NDArray], limit: float) -> None:
    line, outputs = sides
    axes.contourf(line, line, outputs > 0, levels=[-0.5, 0.5, 1.5], colors=LABEL_TINTS)
    axes.contour(line, line, outputs, levels=[0.0], colors=INK, linewidths=0.9)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")


def _points(axes: Axes, task: Task, candidates: Tensor, labels: Tensor) -> None:
    for label, name in enumerate(task.label_names):
        at, mark = candidates[labels == label], LABEL_MARKERS[label]
        axes.scatter(at[:, 0], at[:, 1], s=10, color=LABEL_COLOURS[label], marker=mark, linewidths=0,
                     label=f"candidates ({name})", zorder=3)  # fmt: skip
    for label, name in enumerate(task.label_names):
        at, mark = task.x[task.y == label], LABEL_MARKERS[label]
        axes.scatter(at[:, 0], at[:, 1], s=60, facecolors="none", edgecolors=TRAINING, marker=mark,
                     linewidths=1.2, label=f"training points ({name})", zorder=2)  # fmt: skip


def _outputs(model: nn.Module, limit: float, cells: int = 140) -> tuple[NDArray, NDArray]:
    line = torch.linspace(-limit, limit, cells)
    across, up = torch.meshgrid(line, line, indexing="xy")
    with torch.no_grad():
        outputs = model(torch.stack([across.flatten(), up.flatten()], 1))
    return np.asarray(line), outputs[:, 0].reshape(cells, cells).numpy()
