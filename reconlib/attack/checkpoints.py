"""Half-finished attacks on disk: safetensors, written atomically, bound to the model and the settings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from reconlib.attack.search import SearchState
from reconlib.attack.settings import AttackSettings
from reconlib.files import atomic_path

FORMAT = "reconlib-attack-1"


def fingerprint(
    model: nn.Module, settings: AttackSettings, images: Tensor | None, labels: Tensor | None
) -> str:
    """A hash of all that determines the result."""
    chosen = asdict(settings)
    # Finished restarts stay valid when more are asked for, and whatever is pooled with them.
    del chosen["restarts"], chosen["differences"], chosen["checkpoint_every"]
    digest = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode())
    given = [("images", images), ("labels", labels)]
    for name, tensor in [*model.state_dict().items(), *given]:
        digest.update(name.encode())
        if tensor is not None:
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_search(path: Path, key: str, finished: list[dict[str, Tensor]], state: SearchState | None,
                histories: list[dict[str, list[float]]]) -> None:  # fmt: skip
    """Results of the finished restarts and the state of the running one."""
    tensors = {
        f"finished.{run}.{name}": t for run, result in enumerate(finished) for name, t in result.items()
    }
    metadata = {
        "format": FORMAT,
        "key": key,
        "finished": str(len(finished)),
        "histories": json.dumps(histories),
    }
    if state is not None:
        tensors.update({f"state.{name}": tensor for name, tensor in state.tensors.items()})
        metadata["state"] = json.dumps(
            {
                "step": state.step,
                "loss": state.loss,
                "rate_factor": state.rate_factor,
                "history": state.history,
            }
        )
    with atomic_path(path) as temporary:
        save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary, metadata)


def load_search(
    path: Path, key: str
) -> tuple[list[dict[str, Tensor]], SearchState | None, list[dict[str, list[float]]]]:
    """What `save_search` wrote for the same model and settings; nothing if there is no file."""
    if not path.exists():
        return [], None, []
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path} is not a readable attack checkpoint ({error}): remove it to start anew"
        ) from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} has format {metadata.get('format')!r}, not {FORMAT!r}: choose another path")
    if metadata["key"] != key:
        raise ValueError(
            f"{path} belongs to another model or other settings: choose another path, "
            "or remove it to start anew"
        )
    finished = [
        {name: tensors[f"finished.{run}.{name}"] for name in ("candidates", "multipliers", "residual")}
        for run in range(int(metadata["finished"]))
    ]
    state = None
    if "state" in metadata:
        inner = {name.removeprefix("state."): t for name, t in tensors.items() if name.startswith("state.")}
        state = SearchState(tensors=inner, **json.loads(metadata["state"]))
    return finished, state, json.loads(metadata["histories"])
