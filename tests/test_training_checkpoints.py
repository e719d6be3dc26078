"""Killed at any moment, training goes on and ends with the same bits; stored results are whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from reconlib.data import Task, load_task
from reconlib.models import ModelSettings
from reconlib.training import CheckpointError, TrainSettings, load_trained, save_trained, train
from reconlib.training.checkpoints import cache_key, data_checksum_of, load_run
from reconlib.training.run import make_trainer

MODEL = ModelSettings((1, 28, 28), 1, (120, 120), first_layer_scale=None)
RUNS = {
    "flow": TrainSettings(target_log_loss=-3000.0),
    "batches": TrainSettings(target_log_loss=-40.0, batch=7),
    "margin": TrainSettings(trainer="margin", settle_steps=40),
    "stationary": TrainSettings(weight_decay=1e-3, settle_steps=400),
    "newton": TrainSettings(loss="squared", weight_decay=1e-3),
    "sgd": TrainSettings(trainer="sgd", weight_decay=1e-3, batch=7, steps=900),
    "adam": TrainSettings(trainer="adam", batch=7, steps=800, dtype="float64"),
}
# The child checkpoints all the time, so that a kill lands within a write as easily as between two.
CHILD = """
import sys, torch
torch.set_num_threads(1)
from tests.test_training_checkpoints import MODEL, RUNS, images
from reconlib.training import train
print("ready", flush=True)
train(MODEL, images(), RUNS[sys.argv[1]], cache=sys.argv[2], progress=False, checkpoint_seconds=0.02)
"""


def images() -> Task:
    return load_task("fashion_mnist_mini", "odd_vs_even", per_class=10, test=100)


@pytest.fixture(scope="module")
def task() -> Task:
    return images()


def weights(path: Path) -> dict[str, torch.Tensor]:
    return {k: v.detach() for k, v in load_trained(path).network.state_dict().items()}


def last_step(folder: Path) -> int:
    """The step of the running checkpoint; 0 if there is none, or it is replaced while it is read."""
    for path in folder.glob("[0-9a-f]*.run.safetensors"):
        with suppress(CheckpointError, FileNotFoundError):
            return load_run(path)[1]
    return 0


@pytest.mark.parametrize("name", ["flow", "stationary", "sgd"])
def test_killed_runs_resume_and_end_with_the_same_bits(task, tmp_path, root, name) -> None:
    train(MODEL, task, RUNS[name], cache=tmp_path / "whole", progress=False)
    (whole,) = (tmp_path / "whole").glob("*.safetensors")
    broken = tmp_path / "broken"
    command = [sys.executable, "-c", CHILD, name, str(broken)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    steps = []
    for kill in range(3):
        with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "ready\n"
            if kill == 2:
                assert child.wait(timeout=120) == 0
                break
            deadline, before = time.monotonic() + 60, steps[-1] if steps else 0
            while time.monotonic() < deadline:
                if last_step(broken) > before + 20:
                    break
                time.sleep(0.002)
            child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL, "the child ended before it could be killed"
        steps.append(last_step(broken))
    assert 0 < steps[0] < steps[1]
    (resumed,) = broken.glob("[0-9a-f]*.safetensors")  # the running state is gone
    assert resumed.name == whole.name
    expected, actual = weights(whole), weights(resumed)
    assert all(torch.equal(expected[k], actual[k]) for k in expected)
    assert load_trained(resumed).certificate == load_trained(whole).certificate
    assert load_trained(resumed).history == load_trained(whole).history


def test_a_second_call_reads_the_first_ones_result(task, tmp_path, monkeypatch) -> None:
    settings = TrainSettings(target_log_loss=-20.0)
    first = train(MODEL, task, settings, cache=tmp_path, progress=False)
    monkeypatch.setattr("reconlib.training.run.make_trainer", lambda *_: pytest.fail("trained again"))
    second = train(MODEL, task, settings, cache=tmp_path, progress=False)
    assert second.certificate == first.certificate and second.settings == first.settings
    assert second.stopped == first.stopped and second.history == first.history
    for a, b in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_key_depends_on_everything_that_matters(task) -> None:
    settings = TrainSettings().resolved(1)
    other = load_task("fashion_mnist_mini", "odd_vs_even", per_class=10, offset=10, test=100)
    keys = [
        cache_key(MODEL, task, settings),
        cache_key(replace(MODEL, seed=1), task, settings),
        cache_key(MODEL, other, settings),
        cache_key(MODEL, load_task("fashion_mnist_mini", "odd_vs_even", per_class=10, test=50), settings),
        cache_key(MODEL, task, replace(settings, lr=0.02)),
    ]
    assert len(set(keys)) == len(keys)
    assert cache_key(MODEL, task, settings) == keys[0]


def test_the_file_holds_settings_certificate_and_checksum(task, tmp_path) -> None:
    trained = train(MODEL, task, TrainSettings(target_log_loss=-5.0), progress=False)
    path = tmp_path / "model.safetensors"
    save_trained(path, trained, task.checksum)
    assert data_checksum_of(path) == task.checksum
    loaded = load_trained(path)
    assert loaded.settings == trained.settings and loaded.certificate == trained.certificate
    assert loaded.network.settings == MODEL
    with safe_open(path, "pt") as file:
        assert {"settings", "certificate", "data_checksum", "model", "history"} <= set(file.metadata())


def test_damaged_and_foreign_files_are_refused(task, tmp_path) -> None:
    trained = train(MODEL, task, TrainSettings(target_log_loss=-5.0), progress=False)
    path = tmp_path / "model.safetensors"
    save_trained(path, trained, task.checksum)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="delete it"):
        load_trained(path)
    path.write_bytes(b"\x80\x04not a safetensors file")
    with pytest.raises(CheckpointError, match="delete it"):
        load_trained(path)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_trained(tmp_path / "absent.safetensors")


def test_a_failing_write_leaves_the_old_file(task, tmp_path, monkeypatch) -> None:
    trained = train(MODEL, task, TrainSettings(target_log_loss=-5.0), progress=False)
    path = tmp_path / "model.safetensors"
    save_trained(path, trained, task.checksum)
    before = path.read_bytes()

    def half_written(tensors, file, metadata) -> None:
        Path(file).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("reconlib.training.checkpoints.save_file", half_written)
    with pytest.raises(OSError, match="disk full"):
        save_trained(path, trained, task.checksum)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_trainers_restart_from_their_own_state(task) -> None:
    for settings in RUNS.values():
        resolved = settings.resolved(1)
        _, _, straight = make_trainer(MODEL, task, resolved)
        for _ in range(120):
            straight.step()
        _, _, first = make_trainer(MODEL, task, resolved)
        for _ in range(87):
            first.step()
        _, _, second = make_trainer(MODEL, task, resolved)
        second.load({k: v.clone() for k, v in first.state().items()})
        for _ in range(33):
            second.step()
        assert torch.equal(straight.theta, second.theta)
