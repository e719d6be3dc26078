"""One cell of a figure: train a network, attack it, judge what came back. Kept on disk, resumable."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache as once
from pathlib import Path
from typing import Any, TypeVar

from reconlib.attack import (
    AttackSettings,
    Reconstruction,
    first_layer_rows,
    neuron_differences,
    reconstruct,
)
from reconlib.attack.checkpoints import fingerprint
from reconlib.attack.defaults import settings_for
from reconlib.attack.differences import has_differences
from reconlib.boundary import Boundary, boundary
from reconlib.controls import Controls, compare
from reconlib.data import Task, load_task
from reconlib.files import atomic_path
from reconlib.losses import get_loss
from reconlib.models import Bias, ModelSettings, Network
from reconlib.provenance import combined_hash, module_hashes
from reconlib.results import Result
from reconlib.training import Trained, TrainSettings, train

T = TypeVar("T")

SOME_CONTROLS = ("first_layer", "differences")
ALL_CONTROLS = (*SOME_CONTROLS, "untrained", "other_weights")


@dataclass(frozen=True)
class Experiment:
    """A task, a network and how it is trained and attacked; what is left open follows from the rest.

    `training` and `attack` change single fields of the settings that `settings()` chooses.
    """

    task: str = "vehicles_vs_animals"
    per_class: int = 250
    classes: int = 10  # multiclass tasks only
    dataset: str = "cifar10"
    offset: int = 0
    hidden: tuple[int, ...] = (1000, 1000)
    kernel: int | None = None  # with channels: a ConvNet
    channels: int | None = None
    bias: Bias = "first"
    first_layer_scale: float | None = 1e-4  # of the start; with decay PyTorch's own start is used
    loss: str | None = None  # None: logistic for two labels, cross-entropy for more
    weight_decay: float = 0.0
    seed: int = 0
    training: Mapping[str, Any] | None = None
    attack: Mapping[str, Any] | None = None

    def data(self) -> Task:
        """The training, test and held-out images."""
        return load_task(
            self.dataset, self.task, self.per_class, classes=self.classes, offset=self.offset, test=1000
        )

    def settings(self, task: Task) -> tuple[ModelSettings, TrainSettings, AttackSettings]:
        """Everything that determines the network, its training and its attack."""
        loss = self.loss or ("logistic" if task.outputs == 1 else "cross_entropy")
        model = ModelSettings(
            tuple(task.mean.shape), task.outputs, self.hidden, self.bias,
            None if self.weight_decay else self.first_layer_scale, self.kernel, self.channels, self.seed,
        )  # fmt: skip
        chosen: dict[str, Any] = {"loss": loss, "weight_decay": self.weight_decay, "seed": self.seed}
        if not self.weight_decay and get_loss(loss).separable and self.bias != "all":
            # The published loss for several classes; for two the limit of the margin.
            several = {"trainer": "flow", "target_log_loss": -15.4}
            chosen |= several if task.outputs > 1 else {"trainer": "margin"}
        training = TrainSettings(**(chosen | dict(self.training or {})))
        attack = settings_for(model, loss, self.weight_decay, samples=len(task.x))
        # The papers' claims are about the search; `run` judges differences of neurons beside it.
        attack = replace(attack, **({"seed": self.seed, "differences": 0} | dict(self.attack or {})))
        return model, training, attack


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment."""

    experiment: Experiment
    task: Task
    trained: Trained
    found: Reconstruction
    controls: Controls
    boundary: Boundary
    seconds: Mapping[str, float]  # of "train" and "attack", when they were computed
    cached: Mapping[str, bool]

    @property
    def good(self) -> int:
        """Training images with a reconstruction above SSIM 0.4."""
        return self.controls.attack.good

    @property
    def held_out_good(self) -> int:
        """Images the network never saw that pass the same mark with the same candidates."""
        return self.controls.controls["held_out"].good

    def record(self, result: Result, name: str | None = None) -> None:
        """Note data, seconds and, under `name`, the controls."""
        result.data(self.task)
        for stage, seconds in self.seconds.items():
            result.seconds(stage, seconds, self.cached[stage])
        if name is not None:
            result.control(name, self.controls)


def run(
    experiment: Experiment,
    *,
    controls: Sequence[str] = SOME_CONTROLS,
    cache: str | Path | None = None,
    progress: bool = False,
    **matching: Any,
) -> Outcome:
    """Train, attack and judge, or load what an earlier run has left.

    `controls` beside held-out images and noise: first_layer, differences (of neurons: an attack, but not the
    one that is judged), untrained (the same attack on the start), other_weights (the same attack on a
    network trained on as many other images).
    `matching` goes to the judge. `cache` is a folder (default: `cache_folder()`).
    """
    unknown = set(controls) - set(ALL_CONTROLS)
    if unknown:
        raise ValueError(f"unknown controls {', '.join(unknown)}; there are {', '.join(ALL_CONTROLS)}")
    folder = Path(cache) if cache is not None else cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    task = experiment.data()
    model, training, attack = experiment.settings(task)
    key = _key(model, task.checksum, asdict(training), _code("reconlib.training", "reconlib.losses"))
    trained, train_seconds, train_cached = _timed(
        folder / f"train-{key}.json", lambda: train(model, task, training, cache=folder, progress=progress)
    )
    found, attack_seconds, attack_cached = _attacked(trained.network, attack, folder, progress)
    others, attacks = {}, {}
    if "first_layer" in controls and not model.kernel:
        others["first_layer"] = first_layer_rows(trained.network)
    if "differences" in controls and has_differences(trained.network):
        attacks["differences"] = neuron_differences(trained.network).images
    if "untrained" in controls:
        others["untrained"] = _attacked(Network(model), attack, folder, progress)[0].candidates
    if "other_weights" in controls:
        elsewhere = replace(experiment, offset=experiment.offset + 2 * experiment.per_class)
        other = run(elsewhere, controls=(), cache=folder, progress=progress, **matching)
        others["other_weights"] = other.found.candidates
    setting = "multiclass" if task.outputs > 1 else "binary"
    if not get_loss(training.loss).separable:
        setting = "regression"
    return Outcome(
        experiment,
        task,
        trained,
        found,
        compare(found.candidates, task, others=others, attacks=attacks, **matching),
        boundary(trained.network, task.x, task.y, setting),
        {"train": train_seconds, "attack": attack_seconds},
        {"train": train_cached, "attack": attack_cached},
    )


def cache_folder() -> Path:
    """Where runs are kept: the environment variable RECONLIB_CACHE, else the user's cache folder."""
    chosen = os.environ.get("RECONLIB_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "reconlib" / "runs"


def _attacked(
    network: Network, settings: AttackSettings, folder: Path, progress: bool
) -> tuple[Reconstruction, float, bool]:
    key = _key(fingerprint(network, settings, None, None), settings.restarts, _code("reconlib.attack"))
    file = folder / f"attack-{key}.safetensors"
    return _timed(
        file.with_suffix(".json"),
        lambda: reconstruct(network, settings, checkpoint=file, progress=progress),
    )


def _timed(note: Path, work: Callable[[], T]) -> tuple[T, float, bool]:
    """The result of `work`, and the seconds it took when it was first done, kept in `note`."""
    began = time.monotonic()
    done = work()
    seconds = time.monotonic() - began
    if note.is_file():
        return done, float(json.loads(note.read_text())["seconds"]), True
    with atomic_path(note) as temporary:
        temporary.write_text(json.dumps({"seconds": seconds}))
    return done, seconds, False


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


@once
def _code(*packages: str) -> str:
    """A hash of the modules whose change would change a result."""
    return combined_hash({name: h for name, h in module_hashes().items() if name.startswith(packages)})
