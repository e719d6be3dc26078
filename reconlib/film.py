"""The path of one attack: its candidates at chosen steps, for a film of how an image appears."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reconlib.attack import AttackSettings
from reconlib.attack.problem import build_problem
from reconlib.attack.search import Search


@dataclass(frozen=True)
class Path:
    """Candidates of one restart at t steps, in the coordinates that the network reads."""

    steps: tuple[int, ...]
    candidates: Tensor  # (t, m, *input_shape) float32
    residual: tuple[float, ...]  # (t,) relative stationarity residual at each of them


def record_path(
    model: nn.Module,
    settings: AttackSettings,
    *,
    frames: int = 40,
    restart: int = 0,
    candidates: Tensor | None = None,
) -> Path:
    """Attack `model` once more as restart number `restart` of `settings`, and keep what it goes through.

    The last frame equals what `reconstruct` returns for that restart. Frames are denser at the beginning,
    where images appear. `candidates` (k,) are the positions to keep; all by default.
    """
    if frames < 2:
        raise ValueError(f"a path has a first and a last frame, so at least 2, not {frames}")
    problem = build_problem(model, settings)
    search = Search(problem, settings, restart)
    keep = torch.arange(problem.candidates) if candidates is None else candidates
    share = torch.linspace(0, 1, frames, dtype=torch.float64)
    wanted = {round(float(s**1.5) * settings.steps) for s in share} - {0}
    shown: dict[int, tuple[Tensor, float]] = {}

    def look(search: Search) -> None:
        # A roll-back returns to an earlier step; what comes later then replaces what was seen.
        if search.step in wanted or search.step == settings.steps:
            pixels = problem.space.to_pixels(search.u)[keep]
            relative = search.loss / problem.stationarity.target
            shown[search.step] = (pixels.reshape(-1, *problem.report.input_shape).float().cpu(), relative)

    start = problem.space.to_pixels(search.u)[keep].reshape(-1, *problem.report.input_shape).float().cpu()
    search.advance(look)
    steps = sorted(shown)
    return Path(
        steps=(0, *steps),
        candidates=torch.stack([start, *(shown[step][0] for step in steps)]),
        residual=(1.0, *(shown[step][1] for step in steps)),
    )
