"""Where a result came from: hashes of its code, data and lock, hardware; and what has changed since.

A module's hash ignores comments, docstrings and blank lines, so that rewording does not age a result.
`python -m reconlib.provenance stale` lists results whose code has changed, and the command that remakes each.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import re
import sys
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent
LIBRARIES = ("torch", "torchvision", "numpy", "scipy", "scikit-image", "matplotlib")
# These write results down or show them; they cannot change a number in one. Rules are compared one by one.
BOOKKEEPING = {
    "reconlib",
    "reconlib.catalogue",
    "reconlib.claims",
    "reconlib.files",
    "reconlib.papermill_text",
    "reconlib.probe",
    "reconlib.provenance",
    "reconlib.results",
    "reconlib.text_notebooks",
    "reconlib.verdicts",
}


def code_hash(source: str) -> str:
    """SHA-256 of Python source without comments, docstrings and blank lines (percent notebooks included)."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                if isinstance(first.value.value, str):
                    lines[first.lineno - 1 : first.end_lineno] = [""] * _height(first)
    kept = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(kept.encode()).hexdigest()


def _height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def module_hashes() -> dict[str, str]:
    """Hash of every module of the library, as it lies on disk now."""
    hashes = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        hashes[name] = code_hash(path.read_text(encoding="utf-8"))
    return hashes


def combined_hash(modules: Mapping[str, str]) -> str:
    """One hash for a set of modules, to show on a page."""
    return hashlib.sha256(json.dumps(modules, sort_keys=True).encode()).hexdigest()


def used_modules() -> set[str]:
    """Modules of the library that this process has loaded and that can change a number."""
    loaded = {name for name in sys.modules if name == "reconlib" or name.startswith("reconlib.")}
    return {m for m in loaded - BOOKKEEPING if not m.startswith("reconlib.catalogue.")}


def project_root(start: str | Path | None = None) -> Path:
    """The folder with `notebooks/` and `pyproject.toml`: from `start` (or here) upwards, or the library's."""
    start = Path(start or Path.cwd()).resolve()
    for folder in (start, *start.parents, PACKAGE.parent):
        if (folder / "notebooks").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    raise FileNotFoundError(
        "no project folder (with notebooks/ and pyproject.toml) here or above; run inside the project, "
        "or set RECONLIB_RESULTS to the folder that shall receive results"
    )


def file_hash(path: Path) -> str | None:
    """SHA-256 of a file's bytes, None where there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def notebook_hash(root: Path, notebook: str) -> str | None:
    """Hash of a text notebook's code; its prose is comments, and does not count."""
    path = root / "notebooks" / f"{notebook}.py"
    return code_hash(path.read_text(encoding="utf-8")) if path.is_file() else None


def hardware() -> dict[str, Any]:
    """Processor, cores, memory and GPU; nothing that names the machine."""
    import psutil
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": gpu,
        "system": platform.system(),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return name.group(1).strip() if name else platform.machine()


def versions() -> dict[str, str]:
    """Python and the libraries that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def gather(root: Path, notebook: str, modules: Mapping[str, str], data: Mapping[str, str]) -> dict[str, Any]:
    """The provenance record; `modules` are hashes from the run's beginning, so an edit during it shows."""
    import torch

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "modules": {name: modules[name] for name in sorted(used_modules()) if name in modules},
        "notebook": notebook_hash(root, notebook),
        "lock": file_hash(root / "requirements.lock"),
        "data": dict(data),
        "threads": torch.get_num_threads(),
        "hardware": hardware(),
        "versions": versions(),
    }


@dataclass(frozen=True)
class Stale:
    """A stored result whose code is no longer the code that made it."""

    notebook: str
    profile: str
    modules: tuple[str, ...]
    notebook_changed: bool

    @property
    def command(self) -> str:
        """What remakes the result."""
        return f"make figure FIG={self.notebook} PROFILE={self.profile}"


def staleness(
    result: Mapping[str, Any], root: Path, current: Mapping[str, str] | None = None
) -> Stale | None:
    """What has changed since a stored result was made; None if nothing has."""
    current = module_hashes() if current is None else current
    recorded = result["provenance"]
    changed = tuple(name for name, value in recorded["modules"].items() if current.get(name) != value)
    moved = recorded["notebook"] != notebook_hash(root, result["notebook"])
    return Stale(result["notebook"], result["profile"], changed, moved) if changed or moved else None


def stale(root: Path) -> list[Stale]:
    """All stale results of the book."""
    current = module_hashes()
    files = sorted((root / "book" / "results").glob("*.json"))
    found = [staleness(json.loads(path.read_text(encoding="utf-8")), root, current) for path in files]
    return [entry for entry in found if entry]


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m reconlib.provenance", description=__doc__)
    parser.add_argument("command", nargs="?", default="stale", choices=["stale"])
    parser.add_argument("--root", type=Path, default=None, help="the project's folder")
    root = project_root(parser.parse_args(arguments).root)
    entries = stale(root)
    total = len(list((root / "book" / "results").glob("*.json")))
    if not entries:
        print(f"All {total} results were made by the present code.")
    for entry in entries:
        reasons = [*entry.modules, *(["the notebook itself"] if entry.notebook_changed else [])]
        print(f"{entry.notebook} ({entry.profile}): changed since: {', '.join(reasons)}\n    {entry.command}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
