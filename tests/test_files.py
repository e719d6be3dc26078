"""Atomic writes, checksums and the lock, with real processes that die at the wrong moment."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconlib.files import atomic_path, locked, md5_file, sha256_file


def run(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_atomic_path_replaces_the_file_and_creates_folders(tmp_path: Path) -> None:
    target = tmp_path / "new" / "figure.png"
    for content in (b"first", b"second, longer"):
        with atomic_path(target) as temporary:
            assert temporary.parent == target.parent and temporary.suffix == ".png"
            temporary.write_bytes(content)
        assert target.read_bytes() == content
    assert [p.name for p in target.parent.iterdir()] == ["figure.png"]


def test_a_failing_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_writing_nothing_is_an_error_that_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    with pytest.raises(FileNotFoundError), atomic_path(target):
        pass
    assert target.read_text() == "old"


def test_a_process_killed_while_writing_leaves_the_old_file_whole(tmp_path: Path) -> None:
    target = tmp_path / "weights.bin"
    target.write_bytes(b"old")
    script = """
import sys, time
from reconlib.files import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
"""
    process = run(script, target)
    assert process.stdout is not None and process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_checksums_equal_hashlib_across_block_boundaries(tmp_path: Path, size: int) -> None:
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    path = tmp_path / "file"
    path.write_bytes(content)
    assert sha256_file(path) == hashlib.sha256(content).hexdigest()
    assert md5_file(path) == hashlib.md5(content, usedforsecurity=False).hexdigest()


COUNT = """
import sys
from pathlib import Path
from reconlib.files import locked
counter = Path(sys.argv[1])
for _ in range(50):
    with locked(counter.with_suffix(".lock")):
        value = int(counter.read_text())
        counter.write_text(str(value + 1))
"""


def test_the_lock_serialises_processes(tmp_path: Path) -> None:
    counter = tmp_path / "counter.txt"
    counter.write_text("0")
    processes = [run(COUNT, counter) for _ in range(3)]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert counter.read_text() == "150"


def test_a_held_lock_times_out_with_a_clear_error_and_is_freed_by_death(tmp_path: Path) -> None:
    lock = tmp_path / "data.lock"
    script = """
import sys, time
from reconlib.files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""
    process = run(script, lock)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    started = time.monotonic()
    with (
        pytest.raises(TimeoutError, match=r"another process has held .*data\.lock"),
        locked(lock, timeout=0.2),
    ):
        pass
    assert time.monotonic() - started < 5
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with locked(lock, timeout=5):
        pass
