"""Fixed tiny problems whose numbers are stored with every result: do they still come out the same?

When code that a result used has changed, the probes tell whether the change matters. Inputs are formulas, not
random draws, so that they do not depend on a library's generator. To add one, write a function without
arguments that returns a few floats and decorate it; the tolerance is relative to max(1, |stored|).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from reconlib.attack import AttackSettings, reconstruct
from reconlib.clusters import cluster
from reconlib.data import load_task
from reconlib.matching import judge
from reconlib.models import MLP, ModelSettings
from reconlib.rates import operating_point
from reconlib.ssim import DEFINITIONS, ssim
from reconlib.training import TrainSettings, train

Numbers = dict[str, float]


@dataclass(frozen=True)
class Probe:
    """A named fixed problem."""

    name: str
    tolerance: float
    run: Callable[[], Numbers]


PROBES: dict[str, Probe] = {}


def probe(name: str, tolerance: float = 1e-5) -> Callable[[Callable[[], Numbers]], Callable[[], Numbers]]:
    """Register a function as the probe `name`."""

    def register(run: Callable[[], Numbers]) -> Callable[[], Numbers]:
        if name in PROBES:
            raise ValueError(f"there is already a probe {name!r}")
        PROBES[name] = Probe(name, tolerance, run)
        return run

    return register


def run_probes() -> dict[str, Numbers]:
    """Run every probe; takes seconds."""
    return {name: {key: float(v) for key, v in p.run().items()} for name, p in PROBES.items()}


def changes(stored: Mapping[str, Mapping[str, float]], fresh: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What differs from the stored numbers, in words; a probe newer than the result is no difference."""
    found = []
    for name, numbers in stored.items():
        if name not in fresh or name not in PROBES:
            found.append(f"probe {name} no longer exists")
            continue
        for key, old in numbers.items():
            new = fresh[name].get(key)
            if new is None:
                found.append(f"probe {name} no longer gives {key}")
            elif not abs(new - old) <= PROBES[name].tolerance * max(1.0, abs(old)):
                found.append(f"probe {name}: {key} was {old:.8g}, is {new:.8g}")
    return found


def pictures(count: int, shape: tuple[int, int, int], phase: float = 0.0) -> Tensor:
    """Smooth images (count, *shape) in [0, 1], each with its own frequencies; the same everywhere."""
    index = torch.arange(count, dtype=torch.float64).view(-1, 1, 1, 1)
    c, h, w = (torch.arange(size, dtype=torch.float64) for size in shape)
    rows = torch.sin((0.21 + 0.037 * index) * h.view(1, 1, -1, 1) + 1.3 * index + phase)
    columns = torch.cos((0.17 + 0.029 * index) * w.view(1, 1, 1, -1) + c.view(1, -1, 1, 1) + phase)
    return 0.5 + 0.25 * (rows + columns)


@probe("ssim")
def _ssim() -> Numbers:
    a, b = pictures(6, (3, 32, 32)), pictures(6, (3, 32, 32), phase=0.2)
    return {name: float(ssim(a, b, name).mean()) for name in DEFINITIONS}


@probe("matching")
def _matching() -> Numbers:
    images = pictures(12, (3, 32, 32))
    mean = images.mean(0)
    x, held_out = images - mean, pictures(12, (3, 32, 32), phase=1.9) - mean
    # Close enough together to be averaged, and tinted, which only one of the two distances sees.
    tint = torch.tensor([0.1, 0.0, -0.1], dtype=torch.float64).view(3, 1, 1)
    shifted = [pictures(12, (3, 32, 32), phase=s)[:8] - mean for s in (0.2, 0.22, 0.4)]
    candidates = torch.cat([0.3 * shifted[0], 0.3 * shifted[1] + tint, 0.5 * shifted[2]])
    numbers = {}
    for distance in ("channel_half", "image"):
        for mode in ("mean", "nearest"):
            result = judge(candidates, x, mean, distance=distance, mode=mode)
            numbers[f"ssim {distance} {mode}"] = float(result.ssim.mean())
            numbers[f"served {distance} {mode}"] = float((result.nearest >= 0).sum())
    outside = judge(candidates, held_out, mean)
    point = operating_point(judge(candidates, x, mean).ssim, outside.ssim, 0.1)
    groups = cluster(candidates, torch.arange(3).repeat_interleave(8), radius=0.5)
    return numbers | {
        "held-out ssim": float(outside.ssim.mean()),
        "true positives": float(point.true_positives),
        "clusters": float(len(groups)),
        "cluster score": float(groups.score.sum()),
    }


# Float64 and few steps: rounding must not grow into a difference between machines.


@probe("training", tolerance=1e-4)
def _training() -> Numbers:
    task = load_task("fashion_mnist_mini", "even_vs_odd_classes", per_class=3, test=10)
    model = ModelSettings(tuple(task.mean.shape), 1, (8, 8), first_layer_scale=1e-2)
    numbers: Numbers = {}
    for name, decay in (("flow", 0.0), ("stationary", 0.01)):
        settings = TrainSettings(trainer=name, weight_decay=decay, steps=15, dtype="float64")
        trained = train(model, task, settings, progress=False)
        numbers[f"{name} loss"] = trained.certificate.train_loss
        for k, norm in enumerate(trained.certificate.norms):
            numbers[f"{name} norm {k}"] = norm
    return numbers


@probe("attack", tolerance=1e-4)
def _attack() -> Numbers:
    numbers: Numbers = {}
    for equation, outputs in (("binary", 1), ("multiclass", 3), ("cross_entropy", 3), ("general", 1)):
        network = MLP((1, 4, 4), (12, 10), outputs, first_layer_scale=None)
        settings = AttackSettings(equation=equation, candidates=6, steps=10, rank=8, dtype="float64")
        found = reconstruct(network, settings, progress=False, device="cpu")
        numbers[f"{equation} residual"] = float(found.residual[0])
        numbers[f"{equation} candidates"] = float(found.candidates.norm())
    return numbers
