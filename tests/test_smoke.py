"""Every notebook runs in its smoke profile, on the images that ship with the package, and finds real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Runs are shared between the notebooks of a worker, as a reader's are; nothing lands in the book."""
    return {
        "RECONLIB_CACHE": str(tmp_path_factory.mktemp("runs")),
        "RECONLIB_RESULTS": str(tmp_path_factory.mktemp("results")),
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_smoke(path: Path, folders: dict[str, str], tmp_path: Path) -> None:
    output = tmp_path / f"{path.stem}.ipynb"
    command = [sys.executable, "-m", "papermill", f"notebooks/{path.name}", str(output)]
    environment = {**os.environ, **folders, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "-p", "profile", "smoke"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]

    (saved,) = Path(folders["RECONLIB_RESULTS"]).rglob(f"{path.stem}.json")
    result = json.loads(saved.read_text())
    assert result["profile"] == "smoke"
    assert result["claims"] or path.stem in ("quickstart", "see_it", "neuron_differences", "tried_harder")
    if "check_reconstructions" in path.read_text(encoding="utf-8"):
        # Raised in the notebook when training images are no nearer than chance; here: it was reached.
        printed = "".join(
            o.get("text", "") for c in nbformat.read(output, 4).cells for o in c.get("outputs", [])
        )
        assert "training images are nearer than" in printed
