"""From weights to candidates: restarts, pooled, with the differences of neurons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from reconlib.attack.checkpoints import fingerprint, load_search, save_search
from reconlib.attack.differences import has_differences, neuron_differences
from reconlib.attack.problem import Problem, build_problem
from reconlib.attack.search import Search, SearchState
from reconlib.attack.settings import AttackSettings, Reconstruction


def reconstruct(
    model: nn.Module,
    settings: AttackSettings | None = None,
    *,
    start: Tensor | None = None,
    start_labels: Tensor | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    device: torch.device | str | None = None,
) -> Reconstruction:
    """Search for images that explain `model`'s weights; nothing of its training set is used.

    `start` are images (k, *input_shape) to begin from, mixed with `settings.start_noise` of noise, and
    `start_labels` (k,) their labels. With `checkpoint` an interrupted attack continues where it was.
    """
    settings = settings or AttackSettings()
    problem = build_problem(model, settings, labels=start_labels, device=device)
    key, path = "", None
    finished: list[dict[str, Tensor]] = []
    histories: list[dict[str, list[float]]] = []
    state: SearchState | None = None
    if checkpoint is not None:
        path = Path(checkpoint)
        key = fingerprint(model, settings, start, start_labels)
        finished, state, histories = load_search(path, key)

    total = settings.steps * settings.restarts
    with tqdm(total=total, disable=not progress, unit="step", desc=f"attack ({settings.equation})") as bar:
        for run in range(len(finished), settings.restarts):
            search = Search(problem, settings, run, images=start, resume=state)
            state = None

            def save(state: SearchState) -> None:
                if path is not None:
                    save_search(path, key, finished, state, histories)

            search.advance(lambda s: _show(bar, s), save)
            finished.append(_result(problem, search))
            histories.append(search.history)
            if path is not None:
                save_search(path, key, finished, None, histories)
    found = _pool(problem, settings, finished[: settings.restarts], histories[: settings.restarts])
    return _with_differences(found, model, problem) if settings.differences else found


def _show(bar: tqdm, search: Search) -> None:
    bar.n = search.run * search.settings.steps + search.step
    if search.step % 10 == 0:
        bar.set_postfix(residual=f"{search.loss / search.problem.stationarity.target:.3g}", refresh=False)
    bar.update(0)


def _result(problem: Problem, search: Search) -> dict[str, Tensor]:
    x, multipliers, residual = search.finish()
    if multipliers.shape[1] == 1:
        multipliers = multipliers[:, 0]
    return {
        "candidates": x.reshape(-1, *problem.report.input_shape).float().cpu(),
        "multipliers": (multipliers * problem.multiplier_unit()).float().cpu(),
        "residual": torch.tensor(residual),
    }


def _pool(
    problem: Problem,
    settings: AttackSettings,
    finished: list[dict[str, Tensor]],
    histories: list[dict[str, list[float]]],
) -> Reconstruction:
    runs, m = len(finished), problem.candidates
    return Reconstruction(
        candidates=torch.cat([result["candidates"] for result in finished]),
        multipliers=torch.cat([result["multipliers"] for result in finished]),
        labels=None if problem.labels is None else problem.labels.cpu().repeat(runs),
        run=torch.arange(runs).repeat_interleave(m),
        residual=torch.stack([result["residual"] for result in finished]),
        history={name: [value for history in histories for value in history[name]] for name in histories[0]},
        settings=settings,
        caveats=problem.caveats,
    )


def _with_differences(found: Reconstruction, model: nn.Module, problem: Problem) -> Reconstruction:
    """The same with differences of neurons added; their labels are the network's own."""
    if not has_differences(model):
        caveat = "no fully connected layers read the image: no differences of neurons, only the search"
        return replace(found, caveats=(*found.caveats, caveat))
    shape = problem.report.input_shape
    images, sizes, _ = neuron_differences(model, found.settings.differences, input_shape=shape)
    like = next(model.parameters())
    with torch.no_grad():
        out = model(images.to(like)).reshape(len(images), problem.report.outputs).float().cpu()
    label = (out[:, 0] > 0).long() if out.shape[1] == 1 else out.argmax(1)
    if found.multipliers.dim() == 2:
        sizes = torch.zeros_like(out).scatter_(1, label[:, None], sizes[:, None])
    return replace(
        found,
        candidates=torch.cat([found.candidates, images]),
        multipliers=torch.cat([found.multipliers, sizes]),
        labels=None if found.labels is None else torch.cat([found.labels, label]),
        run=torch.cat([found.run, torch.full((len(images),), -1)]),
    )
