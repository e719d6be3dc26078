"""Checksums of decoded content: computed once per file, then remembered by path, size and time of change."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from ..files import atomic_path, locked
from .catalogue import Layout, Part
from .errors import ChecksumMismatch, Undecodable, UnsafeFile


def cache_folder() -> Path:
    """The user's cache folder of this project: the default data root, and what has been verified."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "reconlib"


def read_verified(path: Path, part: Part, layout: Layout) -> bytes:
    """Canonical bytes of the file `path`; raises unless they are the published ones."""
    fingerprint = _fingerprint(path, part)
    raw = path.read_bytes()
    if _load().get(str(path.resolve())) == fingerprint:
        return _decode(raw, part, layout, path)
    content = decode_verified(raw, part, layout, path)
    if _fingerprint(path, part) == fingerprint:  # else somebody changed it while it was read
        _remember(path, fingerprint)
    return content


def decode_verified(raw: bytes, part: Part, layout: Layout, origin: str | Path) -> bytes:
    """Canonical bytes of a file's bytes; raises, naming `origin`, unless they are the published ones."""
    content = _decode(raw, part, layout, origin)
    check(content, part, origin)
    return content


def check(content: bytes, part: Part, origin: str | Path) -> None:
    """Raise `ChecksumMismatch`, naming `origin`, unless `content` is the published one."""
    found = hashlib.sha256(content).hexdigest()
    if found != part.sha256:
        raise ChecksumMismatch(origin, part.sha256, found)


def _decode(raw: bytes, part: Part, layout: Layout, origin: str | Path) -> bytes:
    try:
        return layout.decode(raw, part.size)
    except Undecodable as error:
        found = f"none: {error}; the file itself has SHA-256 {hashlib.sha256(raw).hexdigest()}"
        raise ChecksumMismatch(origin, part.sha256, found) from None
    except UnsafeFile as error:
        raise UnsafeFile(f"{origin} was refused, and nothing in it was run: it holds {error}.") from None


def _fingerprint(path: Path, part: Part) -> list[object]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, part.sha256]


def _memory() -> Path:
    return cache_folder() / "verified.json"


def _load() -> dict[str, list[object]]:
    try:
        memory = json.loads(_memory().read_text())
    except (OSError, ValueError):
        return {}  # absent or damaged: verify again
    return memory if isinstance(memory, dict) else {}


def _remember(path: Path, fingerprint: list[object]) -> None:
    try:
        with locked(_memory().with_suffix(".lock"), timeout=10):
            memory = _load() | {str(path.resolve()): fingerprint}
            with atomic_path(_memory()) as temporary:
                temporary.write_text(json.dumps(memory, indent=1, sort_keys=True))
    except OSError:  # a read-only home or a busy lock costs the next run a second, nothing else
        pass
