"""Trained networks and half-finished runs on disk: safetensors, written atomically, never unpickled."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from reconlib.files import atomic_path
from reconlib.models import ModelSettings, Network, settings_to_dict
from reconlib.training.certificate import Certificate
from reconlib.training.settings import Recipe, Trained, TrainSettings

if TYPE_CHECKING:
    from reconlib.data import Task

FORMAT = "reconlib-trained-1"


class CheckpointError(ValueError):
    """A file that is not a checkpoint of this project, or not a whole one."""


def save_trained(path: str | Path, trained: Trained, data_checksum: str) -> None:
    """Weights as tensors; settings, certificate, history and the data's checksum as metadata."""
    metadata = {
        "format": FORMAT,
        "model": json.dumps(settings_to_dict(trained.network.settings)),
        "settings": json.dumps(asdict(trained.settings)),
        "certificate": json.dumps(trained.certificate.to_dict()),
        "history": json.dumps(trained.history),
        "stopped": trained.stopped,
        "data_checksum": data_checksum,
    }
    _save(path, dict(trained.network.state_dict()), metadata)


def load_trained(path: str | Path) -> Trained:
    """The network, settings and certificate of a file that `save_trained` wrote."""
    tensors, metadata = _load(path)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {metadata.get('format')!r}, not {FORMAT!r}: train again")
    network = Network(ModelSettings(**json.loads(metadata["model"])))
    network.load_state_dict(tensors)
    return Trained(
        network=network,
        settings=TrainSettings(**json.loads(metadata["settings"])),
        certificate=Certificate.from_dict(json.loads(metadata["certificate"])),
        history=json.loads(metadata["history"]),
        stopped=metadata["stopped"],
    )


def data_checksum_of(path: str | Path) -> str:
    """Checksum of the data that a saved network was trained on."""
    return _load(path)[1]["data_checksum"]


def save_run(path: str | Path, state: dict[str, Tensor], step: int, history: dict[str, list[float]]) -> None:
    """A trainer's state in the middle of a run."""
    _save(path, state, {"step": str(step), "history": json.dumps(history)})


def load_run(path: str | Path) -> tuple[dict[str, Tensor], int, dict[str, list[float]]]:
    """What `save_run` wrote: state, step, history."""
    tensors, metadata = _load(path)
    return tensors, int(metadata["step"]), json.loads(metadata["history"])


def cache_key(model: ModelSettings, task: Task, recipe: Recipe) -> str:
    """A hash of everything that determines the result: settings, data, code, library."""
    digest = hashlib.sha256()
    for part in (json.dumps(settings_to_dict(model)), json.dumps(asdict(recipe)), task.checksum):
        digest.update(part.encode() + b"\0")
    for tensor in (task.x_test, task.y_test):  # the certificate's test error depends on them
        digest.update(tensor.contiguous().numpy().tobytes())
    digest.update(_code().encode() + torch.__version__.encode())
    return digest.hexdigest()[:32]


@once
def _code() -> str:
    """Hash of the modules that a result depends on."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for path in (*sorted(package.glob("*.py")), package.parent / "losses.py", package.parent / "models.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _save(path: str | Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    with atomic_path(path) as temporary:
        save_file({k: v.detach().contiguous() for k, v in tensors.items()}, temporary, metadata)


def _load(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}
    except (SafetensorError, RuntimeError) as problem:
        raise CheckpointError(f"{path} is not a whole safetensors file ({problem}): delete it") from problem
