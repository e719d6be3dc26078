"""Canonical bytes of a data set, whatever it was stored as, and the arrays they stand for.

CIFAR: the official binary records (label bytes, then 3072 pixel bytes, red-green-blue planes).
MNIST and Fashion-MNIST: the uncompressed idx files. Checksums are always of these bytes.
"""

from __future__ import annotations

import gzip
import io
import zlib

import numpy as np

from .errors import Undecodable, UnsafeFile
from .restricted import loads

PIXELS = 3 * 32 * 32
_BLOCK = 1 << 20


def plain(raw: bytes, size: int) -> bytes:
    """A file already in canonical form."""
    return raw


def gunzipped(raw: bytes, size: int) -> bytes:
    """A gzipped canonical file; inflates at most one byte more than it should hold: enough to see.

    A damaged file gives as much as could be read, whose checksum then differs.
    """
    content = bytearray()
    try:
        with gzip.open(io.BytesIO(raw), "rb") as file:
            while len(content) <= size and (block := file.read(min(_BLOCK, size + 1 - len(content)))):
                content += block
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    return bytes(content)


def cifar10_pickle(raw: bytes, size: int) -> bytes:
    """torchvision's CIFAR-10 batch → binary records."""
    return _pickled_records(raw, (b"labels",))


def cifar100_pickle(raw: bytes, size: int) -> bytes:
    """torchvision's CIFAR-100 file → binary records (coarse label, fine label, pixels)."""
    return _pickled_records(raw, (b"coarse_labels", b"fine_labels"))


def _pickled_records(raw: bytes, label_fields: tuple[bytes, ...]) -> bytes:
    content = loads(raw)
    missing = [field.decode() for field in (*label_fields, b"data") if field not in content]
    if missing:
        raise UnsafeFile(f"no field {', '.join(missing)}, only {sorted(content)}")
    pixels = content[b"data"]
    labels = [content[field] for field in label_fields]
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise UnsafeFile(f"a 'data' that is not an array of rows of {PIXELS} bytes")
    for field, values in zip(label_fields, labels, strict=True):
        if not isinstance(values, list) or len(values) != len(pixels):
            raise UnsafeFile(f"a {field.decode()!r} that is not a list of {len(pixels)} labels")
        if not all(isinstance(value, int) and 0 <= value < 256 for value in values):
            raise UnsafeFile(f"a {field.decode()!r} with something else than labels 0..255")
    return records(pixels, *labels)


def records(pixels: np.ndarray, *labels: list[int]) -> bytes:
    """Binary records from `(n, 3072)` pixel rows and one list of labels per label byte."""
    columns = [np.asarray(values, dtype=np.uint8)[:, None] for values in labels]
    return np.concatenate([*columns, pixels], axis=1).tobytes()


def cifar_arrays(content: bytes, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Binary records → images `(n, 3, 32, 32)` and the last label byte of each `(n,)`."""
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, label_bytes + PIXELS)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1]


def idx_array(content: bytes) -> np.ndarray:
    """An idx file of unsigned bytes → its array."""
    dimensions = content[3] if len(content) > 3 else 0
    start = 4 + 4 * dimensions
    if content[:3] != b"\0\0\x08" or len(content) < start:
        raise Undecodable("not an idx file of unsigned bytes")
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], dtype=">u4"))
    if len(content) - start != int(np.prod(shape)):
        raise Undecodable(f"an idx file of shape {shape} with {len(content) - start} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def idx_bytes(array: np.ndarray) -> bytes:
    """An array of unsigned bytes → its idx file."""
    return b"\0\0\x08" + bytes([array.ndim]) + np.asarray(array.shape, ">u4").tobytes() + array.tobytes()
