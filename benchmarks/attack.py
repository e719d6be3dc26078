"""One attack step: against automatic differentiation, and against the machine's matrix-product rate.

A step is all that the search does: loss, gradients, prior and the move. The reference is the same search
with the papers' loss over pixels in float64 through a double-backward graph. The two are timed in turn,
and the best of several counts for each. `python -m benchmarks --only 'attack_*'`, about 3 minutes on two
cores.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks import Measurement, case
from reconlib.attack import AttackSettings
from reconlib.attack.problem import build_problem
from reconlib.attack.products import rounding_pays
from reconlib.attack.search import Search
from reconlib.models import MLP, ConvNet, Network

SHAPE = (3, 32, 32)
OURS = AttackSettings(candidates=1000)
REFERENCE = AttackSettings(
    candidates=1000, rank=None, spread=0.0, whitening=0.0, normalise=None, optimiser="sgd", rate=1e-3,
    prior_every=1, dtype="float64", memory=64.0,
)  # fmt: skip


class WithoutClosedForm(nn.Module):
    """The same network, which the attack can only differentiate."""

    def __init__(self, network: Network):
        super().__init__()
        self.network, self.input_shape = network, network.input_shape

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


def mlp(n: int = 500, width: int = 1000) -> Network:
    """An MLP whose first layer spans n directions, as one that was trained on n images does."""
    network = MLP(SHAPE, (width, width), 1, first_layer_scale=1e-7)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, 3072, generator=generator) - 0.5
    with torch.no_grad():
        network.layers[0].weight.add_(0.01 * torch.randn(width, n, generator=generator) @ images / n**0.5)
    return network


def conv() -> Network:
    return ConvNet(SHAPE, 3, 32, (1000,), 1)


def search(model: nn.Module, settings: AttackSettings, rank: int | None) -> Search:
    settings = replace(settings, rank=rank)
    return Search(build_problem(model, settings), settings)


def seconds_per_step(run: Search, steps: int) -> float:
    started = time.perf_counter()
    run.trial(steps)
    return (time.perf_counter() - started) / steps


def best_in_turn(timings: Sequence[Callable[[], float]], rounds: int) -> list[float]:
    """The least of each, with the rounds interleaved so that all see the same load."""
    return [
        min(column) for column in zip(*([timing() for timing in timings] for _ in range(rounds)), strict=True)
    ]


def step_products(m: int, r: int, width: int, prior_every: int, d: int = 3072) -> float:
    """Multiplications and additions in the products of one step of an MLP with two hidden layers."""
    first, middle, prior = 5 * width * r, 7 * width * width, 2 * r * d / prior_every
    return 2.0 * m * (first + middle + prior)


def peak_memory(kind: str, whose: str) -> float:
    """GB that one process needs for a few steps, the interpreter and the library included."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "benchmarks.attack", kind, whose]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return round(float(done.stdout.split()[-1]), 3)


def peak_of_this_process() -> float:
    """GB. Not `ru_maxrss` where there is a choice: it starts from the memory of the process that called."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def compare(model: Network, rank: int | None, kind: str, *, rounds: int, steps: int) -> Measurement:
    ours = search(model, OURS, rank)
    exact = search(model, AttackSettings(candidates=1000, rounded_share=0.0), rank)
    reference = search(WithoutClosedForm(model), REFERENCE, None)
    for run in (ours, exact):
        run.trial(1)
    times = best_in_turn(
        [
            lambda: seconds_per_step(ours, steps),
            lambda: seconds_per_step(exact, steps),
            lambda: seconds_per_step(reference, 1),
        ],
        rounds,
    )
    extra = {
        "ours_float32": times[1],
        "ratio_float32": round(times[2] / times[1], 2),
        "products": "bfloat16" if ours.may_round else "float32",
        "peak_gb": peak_memory(kind, "ours"),
        "reference_peak_gb": peak_memory(kind, "reference"),
        "note": "reference: float64 double-backward over pixels",
    }
    return Measurement(ours=times[0], reference=times[2], unit="s/step", extra=extra)


@case("attack_step_mlp")
def attack_step_mlp() -> Measurement:
    """n = 500, m = 1000, 3072-1000-1000-1."""
    return compare(mlp(), 500, "mlp", rounds=4, steps=OURS.prior_every)


@case("attack_step_conv")
def attack_step_conv() -> Measurement:
    """ConvNet(3, 32)-1000-1, m = 1000."""
    return compare(conv(), None, "conv", rounds=2, steps=1)  # the prior is no product in pixels


@case("attack_sgemm_share")
def attack_sgemm_share() -> Measurement:
    """Products per second within whole steps, against bare products of 1000×1000 matrices."""
    run = search(mlp(), AttackSettings(candidates=1000, rounded_share=0.0), 500)
    run.trial(2)
    steps = OURS.prior_every
    work = step_products(1000, 500, 1000, steps)
    step, product = best_in_turn([lambda: seconds_per_step(run, steps), lambda: _product(torch.float32)], 6)
    extra = {}
    if rounding_pays(torch.device("cpu")):
        rounded = search(mlp(), OURS, 500)
        rounded.trial(2)
        times = best_in_turn([lambda: seconds_per_step(rounded, steps), lambda: _product(torch.bfloat16)], 6)
        rate, bare = work / times[0], 2e9 / times[1]
        extra = {"bfloat16_gflops": round(rate / 1e9, 1), "bfloat16_share": round(rate / bare, 3)}
    return Measurement(work / step / 1e9, 2e9 / product / 1e9, "GFLOP/s", higher_is_better=True, extra=extra)


@case("attack_scaling")
def attack_scaling() -> Measurement:
    """Seconds per step against the number of candidates m, of samples n and of neurons per layer."""

    def measure(m: int, n: int, width: int) -> float:
        run = search(mlp(n, width), AttackSettings(candidates=m), n)
        run.trial(1)
        return round(min(seconds_per_step(run, OURS.prior_every) for _ in range(3)), 5)

    base = measure(1000, 500, 1000)
    extra = {
        "base": "m=1000, n=500, width=1000",
        "by_m": {m: base if m == 1000 else measure(m, 500, 1000) for m in (250, 500, 1000, 2000)},
        "by_n": {n: base if n == 500 else measure(1000, n, 1000) for n in (125, 250, 500)},
        "by_width_n_240": {w: measure(1000, 240, w) for w in (250, 500, 1000, 2000)},
    }
    return Measurement(base, None, "s/step", extra=extra)


def _product(dtype: torch.dtype) -> float:
    a = torch.ones(1000, 1000, dtype=dtype)
    out = torch.empty_like(a)
    started = time.perf_counter()
    for _ in range(10):
        torch.mm(a, a, out=out)
    return (time.perf_counter() - started) / 10


if __name__ == "__main__":
    kind, whose = sys.argv[1:]
    network = mlp() if kind == "mlp" else conv()
    if whose == "ours":
        search(network, OURS, 500 if kind == "mlp" else None).trial(2)
    else:
        search(WithoutClosedForm(network), REFERENCE, None).trial(1)
    print(peak_of_this_process())
