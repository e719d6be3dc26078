"""Files that are either whole or absent: atomic writes, checksums, and a lock between processes."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_BLOCK = 1 << 20


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it there on success, remove it on any error.

    Readers see the old file or the new one, never half of one. The folder is created if needed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffixes stay last: writers such as numpy and matplotlib choose a format by them.
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:12]}.part{path.suffix}")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())  # otherwise a power cut can leave the new name on an empty file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    return _digest(path, hashlib.sha256())


def md5_file(path: str | Path) -> str:
    """MD5 of a file's bytes: only to compare with the sums that torchvision publishes."""
    return _digest(path, hashlib.md5(usedforsecurity=False))


@contextmanager
def locked(path: str | Path, timeout: float = 3600.0) -> Iterator[None]:
    """Hold the lock file `path` against other processes; the system frees it if this one dies."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(str(path))
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        raise TimeoutError(
            f"another process has held {path} for more than {timeout:g} s; wait for it to end, or end it"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _digest(path: str | Path, digest: hashlib._Hash) -> str:
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
