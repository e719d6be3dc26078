"""How stationary trained networks are: against ln L without decay, and for every loss with decay.

Both are end-to-end cases: `python -m benchmarks --only train_stopping --only train_decay`, about 20
minutes on two cores.
"""

from __future__ import annotations

import math
import time

import torch

from benchmarks import Measurement, case
from benchmarks.training import PUBLISHED, images
from reconlib.data import Task
from reconlib.losses import get_loss
from reconlib.models import ModelSettings, Network
from reconlib.training import Trained, TrainSettings, train
from reconlib.training.certificate import certify
from reconlib.training.kinks import subgradient_residual
from reconlib.training.linearised import Linearised
from reconlib.training.products import Products
from reconlib.training.run import make_trainer


@case("train_stopping", e2e=True)
def train_stopping() -> Measurement:
    """How the KKT residual of the first and last layer falls with ln L: what the default target rests on."""
    task = images("binary")
    model, rows, started = ModelSettings((3, 32, 32), 1), [], time.perf_counter()
    for target in (math.log(PUBLISHED["binary"]), -50.0, -100.0, -200.0, -400.0):
        settings = TrainSettings(target_log_loss=target)
        begun = time.perf_counter()
        network, engine, trainer = make_trainer(model, task, settings.resolved(1))
        published = target > -20  # as published, without the cooling that follows the default target
        while not (trainer.finished or (published and trainer.descent.value <= target)):
            trainer.step()
        seconds = time.perf_counter() - begun
        engine.write(trainer.theta, network)
        fitted = certify(network, task, settings, Network(model)).fitted
        rows.append(
            {
                "log_loss": trainer.descent.value,
                "seconds": seconds,
                "residual": fitted.total,
                "residual_smoothed": fitted.smoothed,
                "by_layer": fitted.by_layer,
            }
        )
    ours = next(row for row in rows if row["log_loss"] <= -200)
    extra = {"rows": rows, "total_seconds": time.perf_counter() - started}
    return Measurement(ours["residual"], rows[0]["residual"], "KKT residual", extra=extra)


DECAYED = [
    *(("binary", 100, "logistic", decay) for decay in (1e-4, 1e-3, 1e-2)),
    *(("binary", 500, "logistic", decay) for decay in (1e-4, 1e-3, 1e-2)),
    ("binary", 100, "squared", 7.5e-4),
    ("binary", 500, "squared", 7.5e-4),
    ("binary", 300, "power", 7.5e-4),
    ("binary", 300, "huber", 7.5e-4),
    ("multiclass", 500, "cross_entropy", 1e-3),
]


@case("train_decay", e2e=True)
def train_decay() -> Measurement:
    """Stationarity with weight decay: gradient, slopes σ(αz), and the distance to the subdifferential."""
    rows = []
    for kind, n, loss, decay in DECAYED:
        task = images(kind, n)
        settings = TrainSettings(loss=loss, weight_decay=decay)
        started = time.perf_counter()
        trained = train(ModelSettings((3, 32, 32), task.outputs, first_layer_scale=None), task, settings)
        seconds = time.perf_counter() - started
        closed = trained.certificate.closed_form
        row = {"task": kind, "n": n, "loss": loss, "decay": decay, "seconds": seconds}
        row |= {"gradient": closed.total, "smoothed": closed.smoothed, "best": closed.best}
        if n == 100:
            row["subdifferential"] = _subdifferential(trained, task, decay)
        rows.append(row)
    ours = next(row["best"] for row in rows if row["n"] == 500 and row["decay"] == 1e-3)
    return Measurement(ours, 0.05, "relative residual", extra={"rows": rows})


def _subdifferential(trained: Trained, task: Task, decay: float) -> dict[str, float]:
    """The least residual over slopes in [0, 1] on pre-activations within a share of their layer's mean."""
    engine = Products(trained.network, task.x, torch.float64)
    at = Linearised(engine, engine.read(trained.network))
    loss = get_loss(trained.settings.loss)
    derivatives = loss.derivatives(at.outputs, loss.targets(task.y, 1)) / len(task.y)
    return {
        f"{width:g}": subgradient_residual(at, derivatives, decay, at.slopes(300.0), width=width)[0]
        for width in (0.01, 0.03, 0.1)
    }
