"""The download path against a real file server: truncation, wrong content, interruption, two at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from data_file_server import MINI, NAMES, RAW, FileServer, names, serving

from reconlib._torchvision import import_torchvision
from reconlib.data import DataNotFound, load_dataset
from reconlib.data.catalogue import DATASETS

# The same for a process of its own: argv is the data root and the server's address.
FETCH = """
import sys
from dataclasses import replace
from reconlib.data import load_dataset
from reconlib.data.catalogue import DATASETS, Layout
mini = DATASETS["fashion_mnist_mini"]
layouts = (replace(mini.layouts[0], folder="FashionMNIST/raw"),)
small = replace(mini, name="fashion_mnist", layouts=layouts, torchvision_class="FashionMNIST")
DATASETS["fashion_mnist"] = small
print("ready", flush=True)
print(int(load_dataset("fashion_mnist", sys.argv[1], mirror=sys.argv[2]).x_train.sum()))
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    yield from serving(monkeypatch, tmp_path)


def test_a_download_gives_the_same_tensors_and_a_progress_bar_with_the_size(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behaviour[NAMES[1]] = "no length"
    data = load_dataset("fashion_mnist", tmp_path / "root", mirror=server.url)
    embedded = load_dataset("fashion_mnist_mini")
    for name in ("x_train", "y_train", "x_test", "y_test"):
        assert torch.equal(getattr(data, name), getattr(embedded, name))
    assert server.requests == NAMES and names(tmp_path / "root" / RAW) == sorted(NAMES)
    shown = capsys.readouterr().err
    assert "train-images-idx3-ubyte" in shown and "433k/433k" in shown
    load_dataset("fashion_mnist", tmp_path / "root", mirror=server.url)
    assert len(server.requests) == 4  # nothing is fetched twice


@pytest.mark.parametrize(
    ("how", "complaint", "kept"),
    [
        ("altered", "is truncated or altered", True),
        ("cut and claims to be whole", "is truncated or altered", True),
        ("connection lost", "the connection ended after 2", False),
        ("absent", "the server answered 404", False),
    ],
)
def test_a_bad_answer_is_never_used(
    server: FileServer, tmp_path: Path, how: str, complaint: str, kept: bool
) -> None:
    bad = NAMES[2]
    server.behaviour[bad] = how
    good = server.files.pop(bad) if how == "absent" else server.files[bad]
    root = tmp_path / "root"
    if kept:
        with (
            pytest.warns(RuntimeWarning, match="is truncated or altered"),
            pytest.raises(DataNotFound) as caught,
        ):
            load_dataset("fashion_mnist", root, mirror=server.url)
        assert MINI.parts[2].sha256 in str(caught.value)  # expected; the found one is tested below
        assert str(caught.value).count("SHA-256 of the decoded content") == 2
        assert f"kept for inspection as {root / RAW / bad}.rejected" in str(caught.value)
    else:
        with pytest.raises(DataNotFound) as caught:
            load_dataset("fashion_mnist", root, mirror=server.url)
    assert complaint in str(caught.value) and f"{server.url}/{bad}" in str(caught.value)
    assert names(root / RAW) == sorted([*NAMES[:2], *([f"{bad}.rejected"] if kept else [])])

    server.behaviour.clear()  # the server is mended: the next call only fetches what is missing
    server.files[bad] = good
    server.requests.clear()
    assert len(load_dataset("fashion_mnist", root, mirror=server.url).x_train) == 1000
    assert server.requests == NAMES[2:]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_download_leaves_no_final_name_and_can_be_repeated(
    server: FileServer, tmp_path: Path, how: signal.Signals
) -> None:
    server.behaviour[NAMES[0]] = "stalls"
    root = tmp_path / "root"
    process = subprocess.Popen(
        [sys.executable, "-c", FETCH, str(root), server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert server.stalled.wait(60)
    deadline = time.monotonic() + 20
    while not (root / RAW / f"{NAMES[0]}.part").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert names(root / RAW) == ([f"{NAMES[0]}.part"] if how == signal.SIGKILL else [])
    server.behaviour.clear()
    assert len(load_dataset("fashion_mnist", root, mirror=server.url).x_train) == 1000
    assert names(root / RAW) == sorted(NAMES)


def test_two_processes_fetch_every_file_once_and_both_get_the_data(
    server: FileServer, tmp_path: Path
) -> None:
    server.behaviour[NAMES[0]] = "stalls"
    command = [sys.executable, "-c", FETCH, str(tmp_path / "root"), server.url]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    assert server.stalled.wait(60)
    time.sleep(0.5)  # time for the second to ask for the same file, if nothing held it back
    server.go_on.set()
    outcomes = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outcomes
    total = int(load_dataset("fashion_mnist_mini").x_train.sum())
    assert [out for out, _ in outcomes] == [f"{total}\n"] * 2
    assert server.requests == NAMES
    assert names(tmp_path / "root" / RAW) == sorted(NAMES)


def test_the_names_asked_for_are_the_ones_torchvision_downloads() -> None:
    datasets = import_torchvision("datasets")
    for info in DATASETS.values():
        if info.archive:
            source = getattr(datasets, info.torchvision_class)
            assert source.url.endswith("/" + info.archive) and source.base_folder == info.layouts[0].folder
            assert tuple(name for name, _ in source.train_list + source.test_list) == info.layouts[0].files
        elif info.torchvision_class:
            source = getattr(datasets, info.torchvision_class)
            assert sorted(name for name, _ in source.resources) == sorted(NAMES)
            assert info.layouts[0].folder == f"{info.torchvision_class}/raw" and source.mirrors
