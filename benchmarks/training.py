"""Training: time to the published losses, share of the matrix-product rate, growth by size.

The reference is the papers' protocol, 10⁶ epochs of full-batch gradient descent in float64 over pixels,
at the time per epoch measured here in turn with ours. `python -m benchmarks --only 'train_*'`, about
3 minutes on two cores; CIFAR-100 is an end-to-end case and takes about 20.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import torch

from benchmarks import Measurement, case
from benchmarks.attack import peak_of_this_process
from reconlib.data import Task, load_task
from reconlib.losses import get_loss
from reconlib.models import ModelSettings
from reconlib.training import TrainSettings, train
from reconlib.training.products import Products
from reconlib.training.run import Network, make_trainer

EPOCHS = 1_000_000
PUBLISHED = {"binary": 3.98e-6, "multiclass": 2.01e-7}
LOSS = {"binary": "logistic", "multiclass": "cross_entropy"}


def images(kind: str, n: int = 500) -> Task:
    if kind == "binary":
        return load_task("cifar10", "vehicles_vs_animals", per_class=n // 2)
    return load_task("cifar10", "multiclass", per_class=n // 10)


def seconds_to_published(kind: str, task: Task) -> tuple[float, int]:
    """A fresh default run up to the published loss, the span's SVD included: seconds and steps."""
    started = time.perf_counter()
    recipe = TrainSettings(loss=LOSS[kind]).resolved(task.outputs)
    _, _, trainer = make_trainer(ModelSettings((3, 32, 32), task.outputs), task, recipe)
    steps = 0
    while trainer.descent.value > math.log(PUBLISHED[kind]):
        trainer.step()
        steps += 1
    return time.perf_counter() - started, steps


def epoch(kind: str, task: Task) -> Callable[[], float]:
    """Seconds per epoch of the papers' protocol, by the same hand-written products as ours."""
    recipe = TrainSettings(loss=LOSS[kind], trainer="paper").resolved(task.outputs)
    _, _, trainer = make_trainer(ModelSettings((3, 32, 32), task.outputs), task, recipe)
    trainer.step()

    def measure() -> float:
        started = time.perf_counter()
        for _ in range(3):
            trainer.step()
        return (time.perf_counter() - started) / 3

    return measure


def autograd_epoch(kind: str, task: Task) -> float:
    """Seconds per epoch of the papers' protocol as a user of torch would write it."""
    network = Network(ModelSettings((3, 32, 32), task.outputs)).double()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
    x, loss = task.x.double(), get_loss(LOSS[kind])
    targets = loss.targets(task.y, task.outputs)
    best = math.inf
    for _ in range(4):
        started = time.perf_counter()
        optimiser.zero_grad()
        loss.values(network(x), targets).mean().backward()
        optimiser.step()
        best = min(best, time.perf_counter() - started)
    return best


def against_the_papers(kind: str, rounds: int = 2) -> Measurement:
    task = images(kind)
    reference = epoch(kind, task)
    epochs, runs = [reference()], []
    for _ in range(rounds):
        runs.append(seconds_to_published(kind, task))
        epochs.append(reference())
    seconds, steps = min(runs)
    extra = {
        "steps": steps,
        "loss": PUBLISHED[kind],
        "seconds_per_step": seconds / steps,
        "seconds_per_epoch": min(epochs),
        "seconds_per_autograd_epoch": autograd_epoch(kind, task),
        "peak_gb": peak_memory(kind, "ours"),
        "reference_peak_gb": peak_memory(kind, "reference"),
    }
    return Measurement(seconds, EPOCHS * min(epochs), "s", extra=extra)


@case("train_binary_500")
def train_binary_500() -> Measurement:
    return against_the_papers("binary")


@case("train_multiclass_500")
def train_multiclass_500() -> Measurement:
    return against_the_papers("multiclass")


def peak_memory(kind: str, whose: str) -> float:
    """GB that a fresh process needs for a few steps, interpreter and libraries included."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "benchmarks.training", kind, whose]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return float(done.stdout)


def flops(n: int, columns: int, hidden: tuple[int, ...], outputs: int) -> float:
    """Multiplications and additions of one step: two products for the first layer, three for the others."""
    sizes = [columns, *hidden, outputs]
    layers = [i * o for i, o in pairwise(sizes)]
    return 2.0 * n * (2 * layers[0] + 3 * sum(layers[1:]))


def product_rate(n: int, columns: int, width: int, rounds: int = 8) -> float:
    """Best measured rate of the products of a step's shapes, in flop/s."""
    rates = []
    for rows, inner, out in ((n, columns, width), (n, width, width), (width, n, width)):
        a, b, c = torch.randn(rows, inner), torch.randn(inner, out), torch.empty(rows, out)
        for _ in range(rounds):
            started = time.perf_counter()
            torch.mm(a, b, out=c)
            rates.append(2.0 * rows * inner * out / (time.perf_counter() - started))
    return max(rates)


def synthetic_run(n: int, hidden: tuple[int, ...]) -> tuple[float, float]:
    """(flop, best seconds) of a flow step on n random images: cost does not depend on what they show."""
    generator = torch.Generator().manual_seed(0)
    network = Network(ModelSettings((3, 32, 32), 1, hidden))
    x = torch.randn(n, 3, 32, 32, generator=generator)
    engine = Products(network, x, torch.float32)
    engine.sharpness = 300.0
    theta, velocity = engine.read(network), torch.zeros(engine.size)
    y = torch.randint(0, 2, (n,), generator=generator)
    loss = get_loss("logistic")
    targets = loss.targets(y, 1)
    best = math.inf
    for _ in range(6):
        started = time.perf_counter()
        outputs = engine.forward(theta).double()
        gradient = engine.backward(loss.derivatives(outputs, targets) / n)
        velocity.mul_(0.9).add_(gradient, alpha=-1e-3)
        theta.add_(velocity)
        best = min(best, time.perf_counter() - started)
    return flops(n, min(n, 3072) + 1, hidden, 1), best  # the zero columns do not count as work


@case("train_sgemm_share")
def train_sgemm_share() -> Measurement:
    shares = []
    for _ in range(3):
        reference = product_rate(500, 512, 1000)
        work, seconds = synthetic_run(500, (1000, 1000))
        shares.append((work / seconds / reference, work / seconds, reference, seconds))
    _, ours, reference, seconds = max(shares)
    extra = {"n": 500, "width": 1000, "seconds_per_step": seconds, "threads": torch.get_num_threads()}
    return Measurement(ours / 1e9, reference / 1e9, "Gflop/s", higher_is_better=True, extra=extra)


@case("train_growth")
def train_growth() -> Measurement:
    """Seconds per step as one size grows from the common point n = 500, width 1000, two hidden layers."""
    table = {"n": {}, "width": {}, "depth": {}}
    for n in (100, 250, 500, 1000, 2000):
        table["n"][str(n)] = synthetic_run(n, (1000, 1000))[1]
    for width in (250, 500, 1000, 2000):
        table["width"][str(width)] = synthetic_run(500, (width, width))[1]
    for depth in (1, 2, 3, 4):
        table["depth"][str(depth)] = synthetic_run(500, (1000,) * depth)[1]
    return Measurement(table["n"]["500"], None, "s/step", extra={"seconds_per_step": table})


@case("train_cifar100_5000", e2e=True)
def train_cifar100_5000() -> Measurement:
    """5,000 CIFAR-100 images, 100 classes, two hidden layers of 2,000, to the published multiclass loss."""
    task = load_task("cifar100", "multiclass", per_class=50)
    target = math.log(PUBLISHED["multiclass"])
    settings = TrainSettings(loss="cross_entropy", target_log_loss=target, batch=100)
    started = time.perf_counter()
    trained = train(ModelSettings((3, 32, 32), 100, (2000, 2000)), task, settings)
    seconds = time.perf_counter() - started
    certificate = trained.certificate
    extra = {
        "steps": trained.history["step"][-1],
        "log_loss": certificate.log_loss,
        "train_error": certificate.train_error,
        "test_error": certificate.test_error,
        "residual": certificate.residual,
        "peak_gb": peak_of_this_process(),
    }
    return Measurement(seconds, 20 * 60.0, "s", extra=extra)


def _few_steps(kind: str, whose: str) -> None:
    """Random images of the same shape: reading a data set takes more memory than training on 500 of it."""
    outputs = 1 if kind == "binary" else 10
    recipe = TrainSettings(loss=LOSS[kind], trainer="auto" if whose == "ours" else "paper").resolved(outputs)
    x, y = torch.rand(500, 3, 32, 32) - 0.5, torch.arange(500) % max(2, outputs)
    task = SimpleNamespace(name="random", x=x, y=y)
    _, _, trainer = make_trainer(ModelSettings((3, 32, 32), outputs), task, recipe)
    for _ in range(3):
        trainer.step()
    print(peak_of_this_process())


if __name__ == "__main__":
    _few_steps(*sys.argv[1:])
