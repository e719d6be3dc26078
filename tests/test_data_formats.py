"""The restricted reader, the formats and the archives: what they accept, and above all what they refuse."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconlib.data.archives import read_members
from reconlib.data.errors import DataError, Undecodable, UnsafeFile
from reconlib.data.formats import (
    PIXELS,
    cifar10_pickle,
    cifar100_pickle,
    cifar_arrays,
    gunzipped,
    idx_array,
    idx_bytes,
    records,
)
from reconlib.data.restricted import loads


def text(value: bytes) -> bytes:
    """A string as Python 2 pickled it."""
    short = len(value) < 256
    return (b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))) + value


def integers(values: list[int]) -> bytes:
    return b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e"


def array(shape: tuple[int, int], content: bytes, dtype: bytes = b"u1") -> bytes:
    size = b"".join(b"J" + struct.pack("<i", n) for n in shape)
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
        b"(K\x01" + size + b"\x86cnumpy\ndtype\n" + text(dtype) + b"K\x00K\x01\x87R"
        b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89" + text(content) + b"tb"
    )


def batch(fields: dict[bytes, bytes]) -> bytes:
    """A CIFAR batch, instruction by instruction as the published files have it."""
    return b"\x80\x02}(" + b"".join(text(key) + value for key, value in fields.items()) + b"u."


PIXEL_ROWS = np.random.default_rng(0).integers(0, 256, (3, PIXELS), dtype=np.uint8)
GOOD = batch({b"data": array((3, PIXELS), PIXEL_ROWS.tobytes()), b"labels": integers([3, 0, 9])})


def test_a_cifar10_batch_becomes_its_binary_records() -> None:
    content = cifar10_pickle(GOOD, 0)
    assert content == records(PIXEL_ROWS, [3, 0, 9]) and len(content) == 3 * 3073
    images, labels = cifar_arrays(content, 1)
    assert labels.tolist() == [3, 0, 9]
    assert np.array_equal(images, PIXEL_ROWS.reshape(3, 3, 32, 32))


def test_a_cifar100_file_keeps_both_labels_and_yields_the_fine_ones() -> None:
    raw = batch(
        {
            b"fine_labels": integers([99, 7]),
            b"coarse_labels": integers([19, 1]),
            b"data": array((2, PIXELS), PIXEL_ROWS[:2].tobytes()),
        }
    )
    content = cifar100_pickle(raw, 0)
    assert [content[0], content[1], content[3074], content[3075]] == [19, 99, 1, 7]
    assert cifar_arrays(content, 2)[1].tolist() == [99, 7]


class Touch:
    """Unpickled by Python's own reader, this creates a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_pickle_is_refused_and_never_run(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made by the pickle"
    raw = pickle.dumps({b"data": Touch(made)}, protocol=protocol)
    with pytest.raises(UnsafeFile, match="which plain data does not need"):
        loads(raw)
    assert not made.exists()
    pickle.loads(raw)  # the same bytes do run elsewhere, or this test would show nothing
    assert made.exists()


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"\x80\x02cos\nsystem\nU\x04true\x85R.", "the name os.system"),
        (b"\x80\x02cbuiltins\neval\nU\x011\x85R.", "the name builtins.eval"),
        (b"\x80\x02cnumpy\nload\nU\x01x\x85R.", "the name numpy.load"),
        (b"\x80\x02cnumpy.core.multiarray\nscalar\n.", "the name numpy.core.multiarray.scalar"),
        (b"\x80\x02(ios\nsystem\n.", "the instruction INST"),
        (b"\x80\x02Pid\n.", "the instruction PERSID"),
        (b"\x80\x02\x82\x01.", "the instruction EXT1"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "the instruction"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "a memo entry 2147483647"),
        (b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}b.", "an attempt to change the reader"),
        (b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nK\x00\x85R.", "an array of an unknown kind"),
        (b"\x80\x02](K\x01K\x02e.", "a list, not a dict"),
        (b"\x80\x02}(K\x01K\x02u.", "a dict, not a dict of named fields"),
        (batch({b"data": array((1, 1), b"x", dtype=b"O8")}), "an array of type b'O8'"),
        (batch({b"data": array((2, 3), b"12345")}), r"shape \(2, 3\) with 5 bytes"),
        (batch({b"data": array((-1, -5), b"12345")}), "not of rows and columns"),
    ],
)
def test_everything_but_plain_data_is_refused_by_name(raw: bytes, complaint: str) -> None:
    with pytest.raises(UnsafeFile, match=complaint):
        loads(raw)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({b"labels": integers([1])}, "no field data"),
        ({b"data": text(b"12")}, "no field labels"),
        ({b"data": text(b"12"), b"labels": integers([1])}, "not an array of rows of 3072"),
        ({b"data": array((1, 2), b"12"), b"labels": integers([1])}, "not an array of rows of 3072"),
        ({b"data": array((1, PIXELS), bytes(PIXELS)), b"labels": integers([1, 2])}, "not a list of 1 labels"),
        ({b"data": array((1, PIXELS), bytes(PIXELS)), b"labels": b"](J\x00\x01\x00\x00e"}, "labels 0..255"),
        ({b"data": array((1, PIXELS), bytes(PIXELS)), b"labels": b"](Ne"}, "labels 0..255"),
    ],
)
def test_plain_data_of_the_wrong_form_is_refused(fields: dict[bytes, bytes], complaint: str) -> None:
    with pytest.raises(UnsafeFile, match=complaint):
        cifar10_pickle(batch(fields), 0)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_damage_is_an_error_of_ours_or_other_plain_data(data: st.DataObject) -> None:
    raw = bytearray(batch({b"data": array((1, 4), b"abcd"), b"labels": integers([3]), b"note": text(b"x")}))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    try:
        content = loads(bytes(raw))
    except DataError:
        return
    assert all(isinstance(key, bytes) for key in content)


def test_a_malformed_text_is_damage_not_a_warning() -> None:
    with pytest.raises(Undecodable, match="invalid escape sequence"):
        loads(rb"S'\u'" + b"\n.")


@pytest.mark.parametrize("length", [0, 1, 2, 40, 200, len(GOOD) // 2, len(GOOD) - 1])
def test_a_truncated_pickle_is_undecodable(length: int) -> None:
    with pytest.raises(Undecodable, match="not a readable pickle"):
        loads(GOOD[:length])


@pytest.mark.parametrize("shape", [(5,), (4, 3, 2), (0, 28, 28)])
def test_idx_files_round_trip(shape: tuple[int, ...]) -> None:
    original = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    assert np.array_equal(idx_array(idx_bytes(original)), original)


@pytest.mark.parametrize("raw", [b"", b"\0\0\x08", b"\0\0\x0d\x01\0\0\0\x01x", b"\0\0\x08\x01\0\0\0\x05abc"])
def test_what_is_no_idx_file_is_undecodable(raw: bytes) -> None:
    with pytest.raises(Undecodable, match="idx file"):
        idx_array(raw)


def test_a_gzip_bomb_is_inflated_one_byte_too_far_at_most() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(gunzipped(bomb, 1000)) == 1001


def test_a_damaged_gzip_file_gives_what_could_be_read() -> None:
    content = os.urandom(3_000_000)
    packed = gzip.compress(content, 1)
    whole = gunzipped(packed, len(content))
    half = gunzipped(packed[: len(packed) // 2], len(content))
    assert whole == content and content.startswith(half) and len(half) < len(content)
    assert gunzipped(b"no gzip file", 10) == b""
    assert gunzipped(packed[:-8] + bytes(8), len(content) + 5) != b""


def tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def test_only_the_files_asked_for_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    archive = tar(
        folder / "a.tar.gz",
        [
            (member("../outside"), b"evil"),
            (member(str(tmp_path / "absolute")), b"evil"),
            (member("data/link", tarfile.SYMTYPE, "/etc/passwd"), b""),
            (member("data/train"), b"good"),
        ],
    )
    assert read_members(archive, ["data/train"], 100) == {"data/train": b"good"}
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tar.gz", "inner"]


@pytest.mark.parametrize(
    ("members", "error", "complaint"),
    [
        ([(member("x", tarfile.SYMTYPE, "/etc/passwd"), b"")], UnsafeFile, "x is a link or a device"),
        ([(member("x", tarfile.LNKTYPE, "y"), b"")], UnsafeFile, "x is a link or a device"),
        ([(member("x", tarfile.FIFOTYPE), b"")], UnsafeFile, "x is a link or a device"),
        ([(member("x"), b"1"), (member("x"), b"2")], UnsafeFile, "x comes twice"),
        ([(member("x"), bytes(101))], UnsafeFile, "far too large"),
        ([(member("./x"), b"1"), (member("y/x"), b"1")], Undecodable, "does not hold x"),
    ],
)
def test_unusual_members_are_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], error: type[DataError], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        read_members(tar(tmp_path / "a.tar.gz", members), ["x"], 100)


def test_a_damaged_archive_is_undecodable(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar.gz", [(member("x"), os.urandom(50_000))])
    raw = archive.read_bytes()
    for damaged in (b"", b"no archive", raw[: len(raw) // 2], raw[:20] + bytes(50) + raw[70:]):
        archive.write_bytes(damaged)
        with pytest.raises(Undecodable, match=r"a\.tar\.gz"):
            read_members(archive, ["x"], 100_000)
