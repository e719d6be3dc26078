"""Grids of experiments over settings and seeds, each with its control, reduced to what a figure needs.

Every cell is kept on disk by `experiments.run`: sweeps resume, and notebooks share cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from torch import Tensor

from reconlib.boundary import Boundary
from reconlib.claims import ratio
from reconlib.experiments import ALL_CONTROLS, SOME_CONTROLS, Experiment, Outcome, run
from reconlib.matching import GOOD
from reconlib.plots import Panel, Series
from reconlib.rates import OperatingPoint, proportion_interval, roc
from reconlib.results import Result
from reconlib.training.certificate import Certificate

Key = tuple[Any, ...]
FALSE_POSITIVES = 0.01  # the share of held-out images that may pass, wherever a rate stands beside a count
NEAR = 0.05  # the same for the rate by distance


@dataclass(frozen=True)
class Point:
    """An `Outcome` without its weights, candidates and images: a sweep holds hundreds of them."""

    experiment: Experiment
    name: str  # of the task
    checksum: str
    ssim: Tensor  # (n,) of the training images
    held_out_ssim: Tensor  # (n,)
    rate: OperatingPoint  # of training images at FALSE_POSITIVES, by SSIM
    near: OperatingPoint  # the same by distance, at NEAR: for grey images, and for small sets
    area: float  # under the ROC of training against held-out images, by SSIM
    boundary: Boundary
    certificate: Certificate
    residual: float  # the attack's smallest, over its restarts
    parameters: int
    summary: Mapping[str, Any]
    seconds: Mapping[str, float]
    cached: Mapping[str, bool]

    @property
    def n(self) -> int:
        """Training images."""
        return len(self.ssim)

    @property
    def good(self) -> int:
        """Training images with a reconstruction above SSIM 0.4."""
        return int((self.ssim > GOOD).sum())

    @property
    def held_out_good(self) -> int:
        """Held-out images that pass the same mark with the same candidates."""
        return int((self.held_out_ssim > GOOD).sum())

    def top(self, count: int) -> float:
        """Mean SSIM of the `count` best images: a quality that does not reward mere number."""
        return float(self.ssim.sort(descending=True).values[:count].mean())

    def differences(self, what: str, held_out: bool = False) -> float:
        """What the judge says of differences of neurons: "good" or "best"; nan where there are none."""
        judged = self.summary["controls"].get("differences_held_out" if held_out else "differences")
        return float("nan") if judged is None else float(judged[what])

    def panel(self, title: str, note: str = "") -> Panel:
        """SSIM against the distance from the boundary."""
        return Panel(title, self.boundary, self.ssim, note)


@dataclass(frozen=True)
class Metric:
    """A number of a point, what a table calls it, and how it is written."""

    value: Callable[[Point], float]
    name: str
    form: str = "{:.3g}"


METRICS: dict[str, Metric] = {
    "n": Metric(lambda p: p.n, "images"),
    "good": Metric(lambda p: p.good, "above 0.4"),
    "held_out_good": Metric(lambda p: p.held_out_good, "held out above 0.4"),
    "share": Metric(lambda p: p.good / p.n, "share above 0.4", "{:.0%}"),
    "rate": Metric(lambda p: p.rate.true_positive_rate, f"rate at {FALSE_POSITIVES:.0%} held out", "{:.1%}"),
    "near_rate": Metric(lambda p: p.near.true_positive_rate, f"rate by distance at {NEAR:.0%}", "{:.0%}"),
    "area": Metric(lambda p: p.area, "area under the ROC", "{:.2f}"),
    "best": Metric(lambda p: float(p.ssim.max()), "best SSIM", "{:.2f}"),
    "top20": Metric(lambda p: p.top(20), "SSIM of the 20 best", "{:.2f}"),
    "top30": Metric(lambda p: p.top(30), "SSIM of the 30 best", "{:.2f}"),
    "differences": Metric(lambda p: p.differences("good"), "by differences of neurons"),
    "differences_held_out": Metric(lambda p: p.differences("good", True), "the same, held out"),
    "differences_best": Metric(lambda p: p.differences("best"), "best by differences", "{:.2f}"),
    "train_error": Metric(lambda p: p.certificate.train_error, "training error", "{:.1%}"),
    "test_error": Metric(lambda p: p.certificate.test_error, "test error", "{:.1%}"),
    "support": Metric(lambda p: p.boundary.effective_support, "samples that share the weights"),
    "on_margin": Metric(lambda p: int(p.boundary.on_margin().sum()), "within a tenth of the margin"),
    "residual": Metric(lambda p: p.residual, "attack's residual", "{:.3f}"),
    "parameters": Metric(lambda p: p.parameters, "parameters", "{:,.0f}"),
}


DIFFERENCES = tuple(name for name in METRICS if name.startswith("differences"))


@dataclass(frozen=True)
class Sweep:
    """Cells by their coordinates along `axes`, each with one `Point` per seed."""

    axes: tuple[str, ...]
    points: Mapping[Key, tuple[Point, ...]]

    def __getitem__(self, key: Any) -> tuple[Point, ...]:
        key = key if isinstance(key, tuple) else (key,)
        if key not in self.points:
            raise KeyError(f"no cell {key}; there are {', '.join(map(str, self.points))}")
        return self.points[key]

    def __iter__(self) -> Iterator[Point]:
        return (point for cell in self.points.values() for point in cell)

    def values(self, metric: str, key: Any) -> list[float]:
        """One number per seed of a cell."""
        return [measure(metric, point) for point in self[key]]

    def mean(self, metric: str, key: Any) -> float:
        """Mean over the seeds of a cell."""
        return fmean(self.values(metric, key))

    def by_seed(self, metric: str, keys: Sequence[Any]) -> dict[int, list[float]]:
        """For each seed that all of `keys` have, the values along them."""
        rows = [{p.experiment.seed: measure(metric, p) for p in self[key]} for key in keys]
        common = [seed for seed in rows[0] if all(seed in row for row in rows)]
        return {seed: [row[seed] for row in rows] for seed in common}

    def series(
        self, name: str, metric: str = "good", keys: Sequence[Any] | None = None, axis: int = 0
    ) -> Series:
        """A line for `plots.curves`: values over seeds along one axis, for all cells or for `keys`."""
        chosen = [k if isinstance(k, tuple) else (k,) for k in (self.points if keys is None else keys)]
        return Series(name, [k[axis] for k in chosen], [self.values(metric, k) for k in chosen])

    def best(self, metric: str = "good", keys: Iterable[Any] | None = None) -> Any:
        """The cell with the highest mean."""
        return max(self.points if keys is None else keys, key=lambda key: self.mean(metric, key))

    def markdown(self, *metrics: str) -> str:
        """Mean and range over seeds of counts, by search and by differences, and of `metrics`."""
        shown = [*self._known("good", "held_out_good", "rate", "best", *DIFFERENCES), *metrics]
        header = [*self.axes, "n", "seeds", *(METRICS[name].name for name in shown)]
        lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        for key, cell in self.points.items():
            numbers = [spread(self.values(name, key), METRICS[name].form) for name in shown]
            texts = [f"{part:g}" if isinstance(part, float) else str(part) for part in key]
            lines.append("| " + " | ".join([*texts, str(cell[0].n), str(len(cell)), *numbers]) + " |")
        return "\n".join(lines)

    def _known(self, *metrics: str) -> list[str]:
        """Those of `metrics` that every point has: a convolution has no differences of neurons."""
        return [m for m in metrics if not any(math.isnan(measure(m, point)) for point in self)]

    def record(self, result: Result, name: str) -> None:
        """Note every number of the grid in a notebook's results: table, controls, data and seconds."""
        rows = [(key, point) for key, cell in self.points.items() for point in cell]
        columns = {axis: [key[i] for key, _ in rows] for i, axis in enumerate(self.axes)}
        columns["seed"] = [point.experiment.seed for _, point in rows]
        for metric in self._known(*METRICS):
            columns[metric] = [measure(metric, point) for _, point in rows]
        result.table(name, **columns)
        for key, point in rows:
            label = "/".join([name, *map(str, key), f"seed {point.experiment.seed}"])
            result.control(label, point.summary)
            result.data(point)
            for stage, seconds in point.seconds.items():
                result.seconds(stage, seconds, point.cached[stage])


def sweep(
    cells: Mapping[Any, Experiment],
    *,
    axes: Sequence[str],
    seeds: Sequence[int] | Callable[[Any], Sequence[int]],
    result: Result,
    name: str,
    earlier: Iterable[Point] = (),
    **matching: Any,
) -> Sweep:
    """Run every cell for every seed (or for `seeds(key)`), and record the numbers in a table called `name`.

    Points of `earlier` sweeps of the same notebook are taken over; their seconds are not counted again.
    The very first point also gets the controls that cost attacks of their own. `matching` goes to the judge.
    """
    known = [replace(p, seconds={}) for p in earlier]
    points: dict[Key, tuple[Point, ...]] = {}
    for key, experiment in cells.items():
        key = key if isinstance(key, tuple) else (key,)
        if len(key) != len(axes):
            raise ValueError(f"cell {key} does not have one coordinate for each of {', '.join(axes)}")
        chosen = seeds(key if len(key) > 1 else key[0]) if callable(seeds) else seeds
        if not chosen:
            raise ValueError(f"cell {key} has no seeds")
        asked = [replace(experiment, seed=seed) for seed in chosen]
        points[key] = tuple(
            next((p for p in known if p.experiment == e), None)
            or point(run(e, controls=SOME_CONTROLS if points or i else ALL_CONTROLS, **matching))
            for i, e in enumerate(asked)
        )
    done = Sweep(tuple(axes), points)
    done.record(result, name)
    return done


def point(outcome: Outcome) -> Point:
    """What a figure needs of an outcome."""
    controls, network = outcome.controls, outcome.trained.network
    inside, outside = (controls.scores(name) for name in ("attack", "held_out"))
    return Point(
        experiment=outcome.experiment,
        name=outcome.task.name,
        checksum=outcome.task.checksum,
        ssim=inside,
        held_out_ssim=outside,
        rate=controls.rate(FALSE_POSITIVES),
        near=controls.rate(NEAR, by="distance"),
        area=roc(inside, outside).area,
        boundary=outcome.boundary,
        certificate=outcome.trained.certificate,
        residual=float(outcome.found.residual.min()),
        parameters=sum(p.numel() for p in network.parameters()),
        summary=controls.summary(distributions=("attack", "held_out")),
        seconds=outcome.seconds,
        cached=outcome.cached,
    )


def measure(metric: str, point: Point) -> float:
    """A number of METRICS."""
    if metric not in METRICS:
        raise KeyError(f"unknown metric {metric!r}; there are {', '.join(METRICS)}")
    return float(METRICS[metric].value(point))


def spread(values: Sequence[float], form: str = "{:.3g}") -> str:
    """Mean and range over seeds as text, or the one value."""
    mean, low, high = (form.format(float(v)) for v in (fmean(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def held_out_ratio(points: Iterable[Point]) -> float:
    """Held-out images above SSIM 0.4 relative to training images above it, over several points."""
    chosen = list(points)
    return ratio(sum(p.held_out_good for p in chosen), sum(p.good for p in chosen))


def check_reconstructions(points: Iterable[Point]) -> str:
    """Raise unless the training images are nearer to candidates than chance would bring them.

    Each point's threshold lets NEAR of its own held-out images pass; the share of all training images that
    pass must exceed that with 97.5 % confidence.
    """
    near = [p.near for p in points]
    passed, members = sum(rate.true_positives for rate in near), sum(rate.members for rate in near)
    low, _ = proportion_interval(passed, members)
    told = f"{passed} of {members} training images are nearer than {1 - NEAR:.0%} of held-out ones"
    if low <= NEAR:
        raise AssertionError(f"{told}: no better than chance, so nothing was reconstructed")
    return told
