"""The two commands, the lock and what a newcomer reads agree with each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
PINS = dict(line.split("==") for line in LOCK.splitlines() if line and not line.startswith("#"))
DEPENDENCIES = [
    Requirement(line)
    for line in PYPROJECT["project"]["dependencies"] + PYPROJECT["project"]["optional-dependencies"]["dev"]
]
TARGETS = ["help", "reproduce", "test", "figure", "book", "bench", "bench-e2e", "stale", "lint"]


def make(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Without what a surrounding `make test` hands down to its children.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k not in ("MFLAGS", "PYTHON")}
    return subprocess.run(
        ["make", *args], cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=120
    )


# --- the locked set


@pytest.mark.parametrize("requirement", DEPENDENCIES, ids=lambda r: r.name)
def test_lock_satisfies_pyproject(requirement: Requirement) -> None:
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])


def test_lock_is_complete_and_is_what_is_installed() -> None:
    """Everything reconlib[dev] brings, direct or not, at the versions installed here, and nothing else."""
    written = subprocess.run(
        [sys.executable, ROOT / ".ci/lock.py"], capture_output=True, text=True, check=True
    )
    assert written.stdout == LOCK


def test_lock_serves_cpu_and_gpu_machines() -> None:
    assert PINS["torch"] == "2.13.0"
    assert Requirement("torch==2.13.0") in DEPENDENCIES, (
        "a range would resolve to a release with CUDA packages"
    )
    assert not [name for name in PINS if name.startswith(("nvidia", "cuda", "triton"))]
    assert "+" not in "".join(PINS.values())
    assert "://" not in LOCK, "no package index is written down; pip's own configuration decides"


def test_conda_installs_the_same_set_as_make() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    assert {entry.split("=")[0] for entry in conda} == {"python", "pip", "make"}
    (python,) = [entry.split("=")[1] for entry in conda if entry.startswith("python=")]
    assert Requirement(f"python{PYPROJECT['project']['requires-python']}").specifier.contains(python)

    recipe = make(ROOT, "--dry-run", "--always-make", "venv").stdout
    (command,) = [line for line in recipe.splitlines() if "--editable" in line]
    by_make = re.search(r"(--constraint \S+).*(--editable) '(\S+)'", command)
    assert by_make, command
    assert sorted(pip) == sorted([by_make[1], f"{by_make[2]} {by_make[3]}"])


def test_pre_commit_uses_the_locked_linter() -> None:
    config = ROOT / ".pre-commit-config.yaml"
    subprocess.run([sys.executable, "-m", "pre_commit", "validate-config", config], check=True)
    hooks = [hook for repo in yaml.safe_load(config.read_text())["repos"] for hook in repo["hooks"]]
    pinned = {d for hook in hooks for d in hook.get("additional_dependencies", [])}
    assert pinned == {f"ruff=={PINS['ruff']}"}


# --- make


def test_help_lists_every_target_with_a_line() -> None:
    shown = make(ROOT, "help")
    assert shown.returncode == 0
    lines = dict(re.findall(r"^  make ([a-z0-9-]+) +(\S.*)$", shown.stdout, re.MULTILINE))
    assert set(TARGETS) <= set(lines)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony and set(phony[1].split()) == set(lines)
    assert make(ROOT).stdout == shown.stdout, "plain `make` shows the help"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder in which make believes the installation is done."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
        os.utime(tmp_path / name, (1e9, 1e9))
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.installed").touch()
    return tmp_path


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "help"])
def test_second_run_installs_nothing_and_a_change_does(installed: Path, target: str) -> None:
    """By make's own decision: the commands it would run, before and after a dependency changed."""
    (installed / "notebooks").mkdir()
    (installed / "notebooks/x.py").touch()
    assert "pip install" not in make(installed, "--dry-run", target, "FIG=x").stdout
    for changed in ("pyproject.toml", "requirements.lock"):
        os.utime(installed / ".venv/.installed", (2e9, 2e9))
        os.utime(installed / changed, (3e9, 3e9))
        assert "pip install" in make(installed, "--dry-run", target, "FIG=x").stdout, changed
        os.utime(installed / changed, (1e9, 1e9))


def test_without_a_suitable_python_make_says_what_to_do(installed: Path, tmp_path: Path) -> None:
    (installed / ".venv/.installed").unlink()
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "make", "echo", "test", "touch", "awk", "rm"):
        (tools / tool).symlink_to(shutil.which(tool))
    old = tools / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")  # what a Python that is too old answers to the check
    old.chmod(0o755)
    done = make(installed, "venv", PATH=str(tools))
    assert done.returncode != 0
    assert "Python 3.11 or newer" in done.stderr
    assert "PYTHON=/path/to/python3" in done.stderr


def test_a_missing_or_unknown_figure_lists_the_notebooks(installed: Path) -> None:
    (installed / "notebooks").mkdir()
    (installed / "notebooks/fig9.py").touch()
    for args in ([], ["FIG=nothing"]):
        done = make(installed, "figure", *args)
        assert done.returncode != 0
        assert "fig9" in done.stderr
        assert "smoke|cpu|paper" in done.stderr


def test_ci_runs_make_test() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert re.search(r"^exec make test\b", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    plan = make(ROOT, "--dry-run", "test").stdout
    for tool in ("ruff check", "ruff format --check", "mypy", "pytest"):
        assert tool in plan


# --- the package


def test_import_is_light() -> None:
    """Papermill imports this package each time it starts, also for `--help`."""
    script = "import reconlib.papermill_text, sys; print(*{'torch', 'numpy', 'jupytext'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == ""


def test_entry_point_is_installed() -> None:
    (entry,) = [e for e in distribution("reconlib").entry_points if e.group == "papermill.engine"]
    assert entry.value == "reconlib.papermill_text:engine"


def test_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    """An installed copy works like this folder: data, schemas and the typing marker are inside."""
    tracked = subprocess.run(
        ["git", "ls-files", "reconlib", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if tracked.returncode:
        pytest.skip("not a git clone: which files belong to the package is unknown")
    names = [name for name in tracked.stdout.split() if (ROOT / name).exists()]
    for name in names:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path, tmp_path / "copy"], check=True, timeout=120)
    (wheel,) = tmp_path.glob("reconlib-*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if name.startswith("reconlib/")} <= inside
    assert wheel.stat().st_size < 2_000_000


def test_versions_agree() -> None:
    import reconlib

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == reconlib.__version__
    assert f"## {reconlib.__version__}" in (ROOT / "CHANGELOG.md").read_text()


# --- what a newcomer reads


def test_citation_names_the_software_and_the_three_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    numbers = {i["value"] for r in citation["references"] for i in r["identifiers"]}
    assert numbers == {"arXiv:2206.07758", "arXiv:2307.01827", "arXiv:2412.08544"}
    assert citation["preferred-citation"] in citation["references"]
    assert all(r["authors"] and r["title"] and r["year"] for r in citation["references"])


def test_readme_commands_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"reproduce", "test"} <= set(re.findall(r"`make ([a-z0-9-]+)", readme)) <= targets
    for notebook in set(re.findall(r"FIG=(\w+)", readme)):
        assert (ROOT / "notebooks" / f"{notebook}.py").exists()
    for notebook in set(re.findall(r"papermill (notebooks/\S+\.py)", readme)):
        assert (ROOT / notebook).exists()


def test_readme_example_uses_what_exists() -> None:
    from dataclasses import fields

    from reconlib.attack import DEFAULTS, Reconstruction

    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(re.search(r"^from .*$", code, re.MULTILINE)[0], {})
    assert set(re.findall(r'"(\w+)"', code)) <= set(DEFAULTS)
    assert set(re.findall(r"found\.(\w+)", code)) <= {field.name for field in fields(Reconstruction)}
    assert "found.candidates" in code


def test_readme_opens_with_a_picture_and_links_resolve() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme.splitlines()[2].startswith("![")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", readme) if "://" not in link]
    assert "book/static/hero.png" in links
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_no_committed_text_names_a_machine_or_an_index() -> None:
    """Addresses and folders of the machine that made a file are of no use, or harm, on another one."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git clone: which files are committed is unknown")
    here = re.compile("|".join(re.escape(p) for p in {str(ROOT), str(Path.home()) + "/", sys.prefix}))
    for name in listed.stdout.split():
        path = ROOT / name
        if not path.is_file() or path.suffix in {".png", ".gz", ".npz", ".safetensors"}:
            continue
        assert not here.search(path.read_text(encoding="utf-8")), name
