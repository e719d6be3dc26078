"""Papermill on plain `.ipynb` files behaves as it does without this package's plug-in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

# The command with the plug-in's entry point hidden: papermill as it is without this package.
WITHOUT = """
import entrypoints
found = entrypoints.get_group_all
entrypoints.get_group_all = lambda group: [e for e in found(group) if "reconlib" not in e.module_name]
from papermill.cli import papermill
papermill(prog_name="python -m papermill")
"""
COMMANDS = {"with": ["-m", "papermill"], "without": ["-c", WITHOUT]}
# Times, random ids and process numbers, which no two runs share.
VARYING = re.compile(
    r'"(id|start_time|end_time|duration|iopub\.[a-z_.]+|shell\.execute_reply)": [^\n]+|ipykernel_\d+'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    cells = [
        nbformat.v4.new_code_cell('a = 1\nprofile = "any"', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("assert a < 5, a\nprint(a, profile)"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "language": "python", "display_name": "Python 3"}
    # As after a run of a text notebook: such a file is still a plain notebook.
    notebook.metadata["jupytext"] = {"text_representation": {"extension": ".py"}}
    nbformat.write(notebook, tmp_path / "in.ipynb")
    return tmp_path


def outcome(
    project: Path, which: str, args: list[str], piped: bytes | None
) -> tuple[int, str, dict[str, str]]:
    """Exit code, standard output, and every file that was written, without times and ids."""
    before = {p: p.read_bytes() for p in project.rglob("*") if p.is_file()}
    done = subprocess.run(
        [sys.executable, *COMMANDS[which], *args],
        cwd=project,
        capture_output=True,
        timeout=120,
        **({"input": piped} if piped is not None else {"stdin": subprocess.DEVNULL}),
    )
    written = {}
    for path in project.rglob("*"):
        if path.is_file() and before.get(path) != path.read_bytes():
            written[path.name] = VARYING.sub("…", path.read_text())
            path.unlink()
    return done.returncode, VARYING.sub("…", done.stdout.decode()), written


@pytest.mark.parametrize(
    ("args", "code", "piped"),
    [
        (["in.ipynb", "out.ipynb", "-p", "a", "2"], 0, False),
        (["in.ipynb", "out.ipynb", "-p", "unknown", "2"], 0, False),
        (["in.ipynb", "out.ipynb", "-p", "profile", "huge"], 0, False),
        (["in.ipynb", "out.ipynb", "-p", "a", "7"], 1, False),
        (["in.ipynb"], 0, False),
        (["in.ipynb", "--help-notebook"], 0, False),
        (["in.ipynb", "missing/out.ipynb"], 1, False),
        (["in.ipynb", "{a}.ipynb", "-p", "a", "3", "--prepare-only"], 0, False),
        (["out.ipynb"], 0, True),
        ([], 0, True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_same_as_without_the_plug_in(project: Path, args: list[str], code: int, piped: bool) -> None:
    data = (project / "in.ipynb").read_bytes() if piped else None
    bare = outcome(project, "without", args, data)
    assert bare[0] == code, "what this test takes for papermill's behaviour is wrong"
    assert outcome(project, "with", args, data) == bare


def test_the_comparison_hides_the_plug_in(project: Path) -> None:
    """Otherwise the test above would compare the plug-in with itself."""
    (project / "t.py").write_text("# %%\nprint(1)\n")
    with_it = outcome(project, "with", ["t.py"], None)
    assert with_it[0] == 0
    assert list(with_it[2]) == ["t.ipynb"]
    assert outcome(project, "without", ["t.py"], None)[0] != 0
