"""Every text notebook and its committed executed twin say the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import nbformat
import pytest

from reconlib.text_notebooks import PROFILES, read_text_notebook, twin_path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
TWINS = sorted(p for p in (ROOT / "book/figures").glob("*.ipynb") if p.stem.count(".") == 0)
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
# A notebook that was never run has no page, and the verdict page says "not run" of its claims.
EXECUTED = [p for p in NOTEBOOKS if (ROOT / "book/figures" / f"{p.stem}.ipynb") in TWINS]
each_executed = pytest.mark.parametrize("path", EXECUTED, ids=lambda p: p.stem)
each_twin = pytest.mark.parametrize("path", TWINS, ids=lambda p: p.stem)


def sources(notebook: nbformat.NotebookNode, cell_type: str) -> list[str]:
    return [
        cell.source.rstrip()
        for cell in notebook.cells
        if cell.cell_type == cell_type and "injected-parameters" not in cell.metadata.get("tags", [])
    ]


def twin_of(path: Path) -> nbformat.NotebookNode:
    twin = twin_path(path)
    assert twin == ROOT / "book/figures" / f"{path.stem}.ipynb"
    assert twin.exists(), f"{path.name} was never run: papermill notebooks/{path.name}"
    return nbformat.read(twin, as_version=4)


@each_executed
def test_code_is_what_was_executed(path: Path) -> None:
    assert sources(read_text_notebook(path), "code") == sources(twin_of(path), "code"), (
        f"the code of {path.name} changed after its run; run it again: papermill notebooks/{path.name}"
    )


@each_executed
def test_prose_is_what_the_book_shows(path: Path) -> None:
    assert sources(read_text_notebook(path), "markdown") == sources(twin_of(path), "markdown"), (
        f"the text of {path.name} changed after its run; bring it over, keeping the outputs: make prose"
    )


@each_executed
def test_tags_are_carried_over(path: Path) -> None:
    def tags(notebook: nbformat.NotebookNode) -> list[list[str]]:
        cells = (cell.metadata.get("tags", []) for cell in notebook.cells)
        return [cell_tags for cell_tags in cells if "injected-parameters" not in cell_tags]

    assert tags(read_text_notebook(path)) == tags(twin_of(path))


@each_executed
def test_twin_was_run_to_its_end_with_the_committed_profile(path: Path) -> None:
    twin = twin_of(path)
    counts = [c.execution_count for c in twin.cells if c.cell_type == "code" and c.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    assert not [o for c in twin.cells for o in c.get("outputs", []) if o.output_type == "error"]
    assert twin.metadata.papermill.parameters.get("profile", "cpu") == "cpu"


@each_executed
def test_twin_and_results_are_of_one_run(path: Path) -> None:
    """Otherwise a page would show pictures of one run beside verdicts of another."""
    run = twin_of(path).metadata.papermill
    results = json.loads((ROOT / f"book/results/{path.stem}.json").read_text(encoding="utf-8"))
    began, ended = map(datetime.fromisoformat, (run.start_time, run.end_time))
    saved = datetime.fromisoformat(results["provenance"]["date"])
    # The date is cut to whole seconds.
    assert began - timedelta(seconds=1) <= saved <= ended, f"run it again: papermill notebooks/{path.name}"


@each_notebook
def test_parameters_cell_declares_profile_and_seed(path: Path) -> None:
    from papermill import inspect_notebook

    parameters = inspect_notebook(str(path))
    assert parameters["profile"]["default"] == '"cpu"'
    assert parameters["seed"]["inferred_type_name"] == "int"
    assert all(p["help"] for p in parameters.values()), "every parameter says in a comment what it is"
    assert all(profile in parameters["profile"]["help"] for profile in PROFILES)


@each_notebook
def test_header_contract(path: Path) -> None:
    """The first cell states question, claim, what to expect, cost, command, and what differs."""
    first = read_text_notebook(path).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert f"papermill notebooks/{path.name}" in first.source
    for word in ("Question", "Claim", "Expected", "Cost", "Command", "Differs"):
        row = re.search(rf"^\| {word}[^|]*\| *\S.*\|$", first.source, re.MULTILINE)
        assert row, f"the header of {path.name} does not say: {word}"


def test_there_is_a_notebook() -> None:
    assert "quickstart" in [path.stem for path in NOTEBOOKS]


@each_twin
def test_twin_has_a_source(path: Path) -> None:
    assert (ROOT / "notebooks" / f"{path.stem}.py").exists()


@each_twin
def test_twin_is_small_and_names_no_machine(path: Path) -> None:
    assert path.stat().st_size < 2_000_000
    text = path.read_text(encoding="utf-8")
    metadata = json.loads(text)["metadata"]["papermill"]
    assert metadata["input_path"] == f"notebooks/{path.stem}.py"
    assert metadata["output_path"] == f"book/figures/{path.stem}.ipynb"
    # Any absolute path, of this machine or of the one it was run on.
    found = re.findall(r"(?:/(?:home|root|Users|tmp|work|mnt|opt|usr|var)/|[A-Z]:\\\\Users)[\w./-]+", text)
    assert not found


def test_pairing_goes_one_way(tmp_path: Path, root: Path) -> None:
    """`make prose` brings text into the twin, keeps its outputs, and leaves the source alone."""
    for folder in ("notebooks", "book/figures"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("pyproject.toml", "notebooks/quickstart.py", "book/figures/quickstart.ipynb"):
        (tmp_path / name).write_bytes((root / name).read_bytes())
    source, twin = tmp_path / "notebooks/quickstart.py", tmp_path / "book/figures/quickstart.ipynb"
    before = nbformat.read(twin, as_version=4)
    injected = nbformat.v4.new_code_cell('profile = "cpu"', metadata={"tags": ["injected-parameters"]})
    before.cells.insert(2, injected)
    nbformat.write(before, twin)
    changed = source.read_text().replace("# # Quick start", "# # A quicker start")
    source.write_text(changed)

    subprocess.run([sys.executable, str(root / ".ci/prose.py")], cwd=tmp_path, check=True)

    after = nbformat.read(twin, as_version=4)
    assert source.read_text() == changed
    assert after.cells[0].source.startswith("# A quicker start")
    assert [c.get("outputs") for c in after.cells] == [c.get("outputs") for c in before.cells]
    assert after.metadata == before.metadata

    source.write_text(changed + "\n# %%\nprint(1)\n")
    refused = subprocess.run(
        [sys.executable, str(root / ".ci/prose.py")], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert "papermill notebooks/quickstart.py" in refused.stderr
    assert nbformat.read(twin, as_version=4) == after
