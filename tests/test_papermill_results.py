"""Where the results of a run go: into the book with its page, beside the notebook with any other output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PYPROJECT = """
[tool.jupytext.formats]
"notebooks/" = "py:percent"
"book/figures/" = "ipynb"
"""
NOTEBOOK = """\
# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper

# %%
from reconlib.results import record

print(record("fig10_classes_fixed_n", profile).path)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "notebooks/x.py").write_text(NOTEBOOK)
    return tmp_path


def results_of(project: Path, output: str, *args: str, **environment: str) -> Path:
    """Where the notebook says its results go, relative to the project."""
    kept = {k: v for k, v in os.environ.items() if k != "RECONLIB_RESULTS"}
    subprocess.run(
        [sys.executable, "-m", "papermill", "notebooks/x.py", *args],
        cwd=project,
        env=kept | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=120,
    )
    import nbformat

    cells = nbformat.read(project / output, as_version=4).cells
    (printed,) = [o.text.strip() for c in cells for o in c.get("outputs", [])]
    return Path(printed).relative_to(project)


NAME = "fig10_classes_fixed_n.json"


def test_the_page_of_the_book_has_its_results_in_the_book(project: Path) -> None:
    page = "book/figures/x.ipynb"
    assert results_of(project, page) == Path("book/results") / NAME
    assert results_of(project, page, page) == Path("book/results") / NAME, "the same, when it is said"
    smoke = "book/_runs/smoke/x.ipynb"
    assert results_of(project, smoke, "-p", "profile", "smoke") == Path("book/_runs/smoke") / NAME


def test_any_other_output_has_its_results_beside_it(project: Path) -> None:
    assert results_of(project, "out.ipynb", "out.ipynb") == Path("out.results/cpu") / NAME
    array = ("runs/seed3.ipynb", "-p", "profile", "paper")
    assert results_of(project, array[0], *array) == Path("runs/seed3.results/paper") / NAME
    assert not (project / "book/results").exists()


def test_a_folder_that_the_user_names_is_kept(project: Path) -> None:
    named = results_of(project, "out.ipynb", "out.ipynb", RECONLIB_RESULTS=str(project / "mine"))
    assert named == Path("mine/cpu") / NAME
