"""`train`: settings and a task in, a trained network with its certificate out."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from reconlib.files import locked
from reconlib.losses import get_loss
from reconlib.models import ModelSettings, Network
from reconlib.training.certificate import certify
from reconlib.training.checkpoints import cache_key, load_run, load_trained, save_run, save_trained
from reconlib.training.first_order import FirstOrder
from reconlib.training.flow import Flow
from reconlib.training.margin import Margin
from reconlib.training.newton import Newton
from reconlib.training.products import Products
from reconlib.training.settings import DTYPES, DivergenceError, Recipe, Trained, TrainSettings
from reconlib.training.stationary import Stationary

if TYPE_CHECKING:
    from reconlib.data import Task

Trainer = Flow | Margin | Stationary | Newton | FirstOrder
TRAINERS: dict[str, type[Trainer]] = {
    "flow": Flow,
    "margin": Margin,
    "stationary": Stationary,
    "newton": Newton,
    "paper": FirstOrder,
    "sgd": FirstOrder,
    "adam": FirstOrder,
}
HISTORY_POINTS = 2_000


def train(
    model: ModelSettings,
    task: Task,
    settings: TrainSettings | None = None,
    *,
    cache: str | Path | None = None,
    progress: bool = True,
    checkpoint_seconds: float = 30.0,
) -> Trained:
    """Train a fresh `Network(model)` on `task`.

    With a `cache` folder the result is stored under a hash of everything that determines it and
    read back the next time; a run that was killed goes on from its last checkpoint there.
    """
    recipe = (settings or TrainSettings()).resolved(model.outputs)
    if cache is None:
        return _run(model, task, recipe, None, progress, checkpoint_seconds)
    stem = Path(cache) / cache_key(model, task, recipe)
    done, running = stem.with_suffix(".safetensors"), stem.with_suffix(".run.safetensors")
    with locked(stem.with_suffix(".lock"), timeout=24 * 3600):
        if done.is_file():
            return load_trained(done)
        trained = _run(model, task, recipe, running, progress, checkpoint_seconds)
        save_trained(done, trained, task.checksum)
        running.unlink(missing_ok=True)
    return trained


def make_trainer(model: ModelSettings, task: Task, recipe: Recipe) -> tuple[Network, Products, Trainer]:
    """A fresh network, its products over the task, and the trainer that will move it."""
    if not bool(task.x.isfinite().all()):
        raise ValueError(f"the training images of {task.name} hold values that are not finite")
    network, loss = Network(model), get_loss(recipe.loss)
    engine = Products(network, task.x, DTYPES[recipe.dtype], recipe.space)
    targets = loss.targets(task.y, model.outputs)
    trainer = TRAINERS[recipe.trainer](engine, engine.read(network), loss, targets, recipe)
    return network, engine, trainer


def _run(
    model: ModelSettings,
    task: Task,
    recipe: Recipe,
    running: Path | None,
    progress: bool,
    checkpoint_seconds: float,
) -> Trained:
    network, engine, trainer = make_trainer(model, task, recipe)
    step = 0
    history: dict[str, list[float]] = {}
    if running is not None and running.is_file():
        state, step, history = load_run(running)
        trainer.load(state)
    every = max(1, recipe.steps // HISTORY_POINTS)
    saved = time.monotonic()
    stopped = trainer.finished
    with tqdm(total=recipe.steps, initial=step, disable=not progress, desc=recipe.trainer) as bar:
        while step < recipe.steps and not stopped:
            trainer.step()
            step += 1
            bar.update()
            stopped = trainer.finished
            if step % every == 0 or stopped or step == recipe.steps:
                report = {"step": float(step), **trainer.report()}
                for name, value in report.items():
                    history.setdefault(name, []).append(value)
                bar.set_postfix({k: f"{v:.3g}" for k, v in report.items() if k != "step"}, refresh=False)
            if running is not None and time.monotonic() - saved > checkpoint_seconds:
                save_run(running, trainer.state(), step, history)
                saved = time.monotonic()
    settings = recipe.settings()
    start = Network(model)
    engine.write(trainer.theta, network)
    certificate = certify(network, task, settings, start)
    if not math.isfinite(certificate.train_loss):
        raise DivergenceError(f"training ended with the loss {certificate.train_loss}: lower lr")
    return Trained(network, settings, certificate, history, stopped or "steps")
