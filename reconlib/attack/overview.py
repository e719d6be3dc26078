"""What an attack faces, before it starts: equations against unknowns, rank, homogeneity, memory, time."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reconlib.attack.problem import build_problem, bytes_per_candidate
from reconlib.attack.rowspace import RowSpace, spectrum
from reconlib.attack.search import Search
from reconlib.attack.settings import AttackSettings


@dataclass(frozen=True)
class Overview:
    """All read off the weights; `print` it."""

    path: str  # mlp, conv (closed forms) or generic
    equation: str
    parameters: int  # p, which is the number of equations
    candidates: int
    unknowns: int  # coordinates and multipliers of all candidates
    dimension: int  # d of an image
    samples: int | None  # n̂: the rank of the first layer, where it shows one
    singular_values: Tensor  # of the first layer
    gap: float  # ratio of the last singular value counted to the first one not counted
    degree: float | None  # of homogeneity
    memory: int  # bytes, parameters and working set
    seconds: float | None  # for all restarts, from a timed step; None: not timed
    caveats: tuple[str, ...]

    @property
    def parameters_per_unknown(self) -> float:
        """p / (d·n̂): recovery needs this to be well above 1; nan if n̂ is not known."""
        return self.parameters / (self.dimension * self.samples) if self.samples else math.nan

    def __str__(self) -> str:
        rows = [
            ("path", self.path),
            ("equation", self.equation),
            ("parameters p (equations)", f"{self.parameters:,}"),
            ("candidates m", f"{self.candidates:,}"),
            ("unknowns", f"{self.unknowns:,}"),
            ("rank of the first layer n̂", "not shown" if self.samples is None else f"{self.samples:,}"),
            ("gap behind the rank", f"{self.gap:.3g}×"),
            ("p/(d·n̂)", f"{self.parameters_per_unknown:.3g}"),
            ("homogeneous of degree", "no" if self.degree is None else f"{self.degree:.4g}"),
            ("memory", f"{self.memory / 1e9:.2f} GB"),
            ("time", "not measured" if self.seconds is None else f"{self.seconds:.0f} s"),
            *(("caveat", caveat) for caveat in self.caveats),
        ]
        return "\n".join(f"{name:<28}{value}" for name, value in rows)


def overview(
    model: nn.Module,
    settings: AttackSettings | None = None,
    *,
    timed: bool = True,
    device: torch.device | str | None = None,
) -> Overview:
    """Build the attack, time a few of its steps, and say what it would do; nothing is kept."""
    settings = settings or AttackSettings()
    problem = build_problem(model, settings, device=device)
    report = problem.report
    if isinstance(problem.space, RowSpace):
        found = problem.space.spectrum
    else:
        first = next(p for p in model.parameters() if p.dim() > 1)
        found, _ = spectrum(first.detach())
    reads_images = report.path == "mlp"
    per_candidate = bytes_per_candidate(model, report, settings)
    return Overview(
        path=report.path,
        equation=settings.equation,
        parameters=report.parameters,
        candidates=problem.candidates,
        unknowns=problem.candidates * (problem.space.dimension + problem.columns),
        dimension=math.prod(report.input_shape),
        samples=found.rank if reads_images and found.revealing else None,
        singular_values=found.singular_values.cpu(),
        gap=found.gap,
        degree=report.degree,
        memory=2 * 4 * report.parameters + per_candidate * problem.chunk,
        seconds=_seconds(Search(problem, settings), settings) if timed else None,
        caveats=problem.caveats,
    )


def _seconds(search: Search, settings: AttackSettings) -> float:
    """Time for all steps from a whole round of them, the prior's included, after one to warm up."""
    search.trial(1)
    steps = min(settings.prior_every, max(settings.steps - 1, 1))
    started = time.perf_counter()
    search.trial(steps)
    return (time.perf_counter() - started) / steps * settings.steps * settings.restarts
