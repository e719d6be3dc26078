"""The workflows are valid, pinned, careful with rights, and call what exists here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from reconlib import colab

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)


def check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        str(path),
    ]
    return subprocess.run(command, capture_output=True, text=True)


def test_tests_and_publication_exist() -> None:
    assert {path.stem for path in WORKFLOWS} == {"tests", "site"}


@each_workflow
def test_follows_githubs_schema(path: Path) -> None:
    done = check(path)
    assert done.returncode == 0, done.stdout


def test_the_schema_refuses_a_misspelt_key(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yml"
    bad.write_text("on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    stepz: []\n")
    assert check(bad).returncode != 0


@each_workflow
def test_actions_are_pinned_to_a_commit_with_their_version(path: Path) -> None:
    uses = re.findall(r"^\s*(?:- )?uses: (.*)$", path.read_text(), re.MULTILINE)
    assert uses
    assert [u for u in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", u)] == []


@each_workflow
def test_rights_are_read_only_unless_a_job_says_more(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    expected = {"deploy": {"pages": "write", "id-token": "write"}, "colab": {"contents": "write"}}
    assert more == ({} if path.stem == "tests" else expected)
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
            # Text that others write, such as a branch's name, must not become part of a command.
            assert "${{" not in step.get("run", "")


@each_workflow
def test_targets_and_modules_exist(path: Path) -> None:
    text = path.read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets
    for module in re.findall(r"python3 -m (reconlib\.\w+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()


def test_the_site_is_built_with_warnings_as_errors() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text())["jobs"]
    (command,) = [s["run"] for s in jobs["build"]["steps"] if "jupyter-book" in s.get("run", "")]
    assert command.split()[1:] == ["build", "book", "-W", "-n", "--keep-going"]
    assert jobs["deploy"]["needs"] == "build"


def test_notebooks_for_colab_install_this_commit_and_are_valid(tmp_path: Path) -> None:
    """With a bare Python, as in the workflow: nothing of what the library needs is installed there."""
    script = (
        "import runpy, sys\n"
        "sys.modules.update(torch=None, numpy=None, nbformat=None)\n"
        "sys.argv = ['colab', 'some/one', 'abc123', sys.argv[1]]\n"
        "runpy.run_module('reconlib.colab', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    twins = {p.name for p in (ROOT / "book/figures").glob("*.ipynb") if "." not in p.stem}
    assert {p.name for p in tmp_path.glob("*.ipynb")} == twins
    for path in tmp_path.glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        first = notebook.cells[0].source
        assert "pip install" in first and "reconlib @ git+https://github.com/some/one@abc123" in first
        assert "raw.githubusercontent.com/some/one/abc123/requirements.lock" in first
        assert not [c for c in notebook.cells if c.cell_type == "code" and c.outputs]
        before = json.loads((ROOT / "book/figures" / path.name).read_text())["cells"]
        assert [c.source for c in notebook.cells[1:]] == ["".join(c["source"]) for c in before]
    assert colab.address("some/one", "quickstart").endswith("/some/one/blob/colab/quickstart.ipynb")
