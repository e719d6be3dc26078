"""CIFAR's archive: fetched, put there by hand, damaged or malicious.

The batches have CIFAR's own format, with the embedded images in three channels in place of photographs.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data_file_server import FileServer, names, serving
from test_data_formats import array, batch, integers

from reconlib.data import ChecksumMismatch, DataNotFound, UnsafeFile, load_dataset
from reconlib.data.catalogue import DATASETS, DatasetInfo, Layout, Part
from reconlib.data.formats import cifar10_pickle, records


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    yield from serving(monkeypatch, tmp_path)


def archive_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def cifar(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Two small batches in CIFAR's own format, announced to the catalogue; the server has their archive."""
    data = load_dataset("fashion_mnist_mini")
    pixels = np.pad(data.x_train[:60].numpy(), ((0, 0), (0, 0), (2, 2), (2, 2))).repeat(3, 1).reshape(60, -1)
    labels = data.y_train[:60].tolist()
    parts, members = [], {}
    for name, rows in (("data_batch_1", slice(0, 40)), ("test_batch", slice(40, 60))):
        fields = {
            b"data": array(pixels[rows].shape, pixels[rows].tobytes()),
            b"labels": integers(labels[rows]),
        }
        members[f"cifar-10-batches-py/{name}"] = batch(fields)
        content = records(pixels[rows], labels[rows])
        parts.append(Part(f"{name}.bin", hashlib.sha256(content).hexdigest(), len(content)))
    layout = Layout("cifar-10-batches-py", ("data_batch_1", "test_batch"), cifar10_pickle)
    small: DatasetInfo = replace(DATASETS["cifar10"], parts=tuple(parts), layouts=(layout,), npm=None)
    monkeypatch.setitem(DATASETS, "cifar10", small)
    server.files[small.archive] = archive_of({"cifar-10-batches-py/batches.meta": b"not needed", **members})
    return members


def test_an_archive_is_fetched_checked_and_unpacked(
    server: FileServer, cifar: dict[str, bytes], tmp_path: Path
) -> None:
    data = load_dataset("cifar10", tmp_path / "root", mirror=server.url + "/")
    assert data.x_train.shape == (40, 3, 32, 32) and data.x_test.shape == (20, 3, 32, 32)
    assert torch.equal(data.x_train[:, 1, 2:30, 2:30], load_dataset("fashion_mnist_mini").x_train[:40, 0])
    assert names(data.folder) == ["data_batch_1", "test_batch"]
    for member, content in cifar.items():
        assert (tmp_path / "root" / member).read_bytes() == content


def test_an_archive_put_there_by_hand_is_used_without_a_connection(
    server: FileServer, cifar: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "cifar-10-python.tar.gz").write_bytes(server.files["cifar-10-python.tar.gz"])
    assert len(load_dataset("cifar10", tmp_path / "root", mirror=server.url).x_train) == 40
    assert server.requests == []


def test_a_bad_archive_put_there_by_hand_is_named_and_kept(
    server: FileServer, cifar: dict[str, bytes], tmp_path: Path
) -> None:
    archive = tmp_path / "root" / "cifar-10-python.tar.gz"
    archive.parent.mkdir()
    half = server.files[archive.name][: len(server.files[archive.name]) // 2]
    archive.write_bytes(half)
    with pytest.raises(ChecksumMismatch, match="MD5 of the file, expected: c58f30108f718f92721af3b95e74349a"):
        load_dataset("cifar10", tmp_path / "root", mirror=server.url)
    assert archive.read_bytes() == half and server.requests == []
    assert not (tmp_path / "root" / "cifar-10-batches-py").exists()


def test_an_archive_with_one_altered_batch_is_rejected_whole(
    server: FileServer, cifar: dict[str, bytes], tmp_path: Path
) -> None:
    name = "cifar-10-batches-py/test_batch"
    altered = cifar[name][:-200] + bytes(100) + cifar[name][-100:]
    server.files["cifar-10-python.tar.gz"] = archive_of({**cifar, name: altered})
    with pytest.warns(RuntimeWarning, match="test_batch"), pytest.raises(DataNotFound, match="SHA-256"):
        load_dataset("cifar10", tmp_path / "root", mirror=server.url)
    assert names(tmp_path / "root") == [".cifar10.lock", "cifar-10-python.tar.gz.rejected"]


def test_a_batch_with_code_in_it_is_refused_wherever_it_comes_from(
    server: FileServer, cifar: dict[str, bytes], tmp_path: Path
) -> None:
    load_dataset("cifar10", tmp_path / "root", mirror=server.url)
    victim = tmp_path / "root" / "cifar-10-batches-py" / "test_batch"
    evil = f"\x80\x02cos\nmkdir\nU{chr(len(str(tmp_path)) + 5)}{tmp_path}/evil\x85R.".encode("latin1")
    victim.write_bytes(evil)
    with pytest.raises(UnsafeFile, match=r"test_batch was refused.*the name os\.mkdir"):
        load_dataset("cifar10", tmp_path / "root")
    assert not (tmp_path / "evil").exists() and victim.read_bytes() == evil

    server.files["cifar-10-python.tar.gz"] = archive_of({**cifar, "cifar-10-batches-py/test_batch": evil})
    with pytest.warns(RuntimeWarning, match="was refused"), pytest.raises(DataNotFound, match=r"os\.mkdir"):
        load_dataset("cifar10", tmp_path / "other root", mirror=server.url)
    assert not (tmp_path / "evil").exists()
