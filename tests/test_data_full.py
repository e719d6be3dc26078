"""The full data sets, where the data root has them: the same tensors from every layout."""

from __future__ import annotations

import gzip
import hashlib
from functools import lru_cache
from pathlib import Path

import pytest
import torch

from reconlib._torchvision import import_torchvision
from reconlib.data import DataNotFound, Dataset, data_root, load_dataset, load_task
from reconlib.data.catalogue import DATASETS
from reconlib.data.formats import plain
from reconlib.data.make_mini import mini_files
from reconlib.data.restricted import loads


@lru_cache(maxsize=2)
def full(name: str) -> Dataset:
    try:
        return load_dataset(name, download=False)
    except DataNotFound:
        pytest.skip(
            f"{name} is not in the data root {data_root()}; set RECONLIB_DATA to a folder that has it"
        )


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "mnist", "fashion_mnist"])
def test_sizes_and_classes_are_the_published_ones(name: str) -> None:
    data, info = full(name), DATASETS[name]
    assert data.x_train.shape == (info.train_size, *info.shape) and data.x_train.dtype == torch.uint8
    assert data.x_test.shape == (info.test_size, *info.shape)
    for labels in (data.y_train, data.y_test):
        counts = labels.bincount()
        assert len(counts) == len(info.class_names)
        if name != "mnist":
            assert len(counts.unique()) == 1
    assert data.checksums == {part.name: part.sha256 for part in info.parts}


@pytest.mark.parametrize("name", ["cifar100", "mnist"])
def test_torchvision_reads_the_same_tensors_from_the_same_folder(name: str) -> None:
    data, info = full(name), DATASETS[name]
    if data.folder != data_root() / info.layouts[0].folder:
        pytest.skip(f"{name} is stored as {data.folder.name}, which torchvision does not read")
    source = getattr(import_torchvision("datasets"), info.torchvision_class)
    theirs = source(data_root(), train=False, download=False)
    x = torch.as_tensor(theirs.data)
    x = x.permute(0, 3, 1, 2) if x.ndim == 4 else x[:, None]
    assert torch.equal(x, data.x_test) and torch.equal(torch.as_tensor(theirs.targets), data.y_test)


def test_cifar100_names_are_those_of_its_meta_file() -> None:
    folder = full("cifar100").folder
    if not (folder / "meta").exists():
        pytest.skip("the binary form has no meta file")
    names = loads((folder / "meta").read_bytes())[b"fine_label_names"]
    assert tuple(name.decode() for name in names) == DATASETS["cifar100"].class_names


def test_mnist_gzipped_and_plain_are_the_same_data(tmp_path: Path) -> None:
    original = full("mnist")
    info = DATASETS["mnist"]
    layout = next(
        lay for lay in info.layouts if str(original.folder).endswith(lay.folder) and lay.decode is plain
    )
    target = tmp_path / layout.folder
    target.mkdir(parents=True)
    for file in layout.files:
        (target / f"{file}.gz").write_bytes(gzip.compress((original.folder / file).read_bytes(), 1))
    again = load_dataset("mnist", tmp_path, download=False)
    assert torch.equal(again.x_train, original.x_train) and torch.equal(again.y_test, original.y_test)


def test_the_embedded_files_are_rebuilt_from_the_full_data_set_byte_by_byte() -> None:
    full("fashion_mnist")
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in mini_files().items()}
    assert sums == {part.name: part.sha256 for part in DATASETS["fashion_mnist_mini"].parts}


@pytest.mark.parametrize("task", ["odd_vs_even", "even_vs_odd_classes"])
def test_small_tasks_on_the_embedded_data_are_those_on_the_full_data_set(task: str) -> None:
    full("fashion_mnist")
    small = load_task("fashion_mnist_mini", task, 100)
    assert small.checksum == load_task("fashion_mnist", task, 100).checksum


def test_the_cifar100_task_of_the_paper() -> None:
    full("cifar100")
    task = load_task("cifar100", "multiclass", 50)
    assert task.x.shape == (5000, 3, 32, 32) and task.outputs == 100
    assert task.y.bincount().tolist() == [50] * 100 and len(task.x_test) == 10_000
    assert not set(task.train_indices.tolist()) & set(task.held_out_indices.tolist())
