"""`papermill notebooks/x.py`, run as a user runs it: real processes, a real pseudo-terminal, real kernels."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

PAPERMILL = [sys.executable, "-m", "papermill"]

PYPROJECT = """
[tool.jupytext.formats]
"notebooks/" = "py:percent"
"book/figures/" = "ipynb"
"""

NOTEBOOK = """\
# %% [markdown]
# # A notebook

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed = 3  # of everything random
mode: str = "good"  # how it ends

# %% tags=["hide-input"]
import os
import sys
import time

print(f"profile {profile}, seed {seed}")
if mode == "fail":
    raise RuntimeError("this cell was told to fail")
if mode == "die":
    os.kill(os.getpid(), 9)
if mode == "wait":
    time.sleep(60)
if mode == "exit":
    sys.exit(3)

# %%
print("the end")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with one paired text notebook, `notebooks/x.py`."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "notebooks/x.py").write_text(NOTEBOOK)
    return tmp_path


def run(project: Path, *args: str, **options: object) -> subprocess.CompletedProcess[str]:
    """papermill off a terminal, with an empty standard input that is no pipe."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, **options}
    return subprocess.run([*PAPERMILL, *args], cwd=project, text=True, timeout=120, **options)


def run_on_terminal(project: Path, *args: str) -> tuple[int, str]:
    """papermill with a pseudo-terminal as its standard input, output and error."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(project)
        os.execv(sys.executable, [*PAPERMILL, *args])
    shown, deadline = b"", time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            block = os.read(terminal, 65536)
        except OSError:  # Linux reports the end of a pseudo-terminal as an input error
            break
        if not block:
            break
        shown += block
    else:
        os.kill(child, signal.SIGKILL)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode(errors="replace")


def printed(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "".join(o.get("text", "") for c in cells for o in c.get("outputs", []))


def files(project: Path) -> set[str]:
    return {str(p.relative_to(project)) for p in project.rglob("*") if p.is_file()} - {
        "pyproject.toml",
        "notebooks/x.py",
    }


@pytest.fixture(autouse=True)
def source_is_never_written(project: Path):
    yield
    assert (project / "notebooks/x.py").read_text() == NOTEBOOK


def test_on_a_terminal_the_paired_notebook_is_the_default_output(project: Path) -> None:
    code, shown = run_on_terminal(project, "notebooks/x.py")
    assert code == 0, shown
    assert "book/figures/x.ipynb" in shown
    assert files(project) == {"book/figures/x.ipynb"}
    assert printed(project / "book/figures/x.ipynb") == "profile cpu, seed 3\nthe end\n"


def test_off_a_terminal_it_is_the_same(project: Path) -> None:
    done = run(project, "notebooks/x.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert files(project) == {"book/figures/x.ipynb"}


def test_from_another_folder(project: Path) -> None:
    done = run(project / "notebooks", "x.py")
    assert done.returncode == 0, done.stderr
    assert files(project) == {"book/figures/x.ipynb"}
    metadata = nbformat.read(project / "book/figures/x.ipynb", as_version=4).metadata.papermill
    assert (metadata.input_path, metadata.output_path) == ("notebooks/x.py", "book/figures/x.ipynb")


@pytest.mark.parametrize("piped", [b"", b"not a notebook", b'{"cells": []}'])
def test_piped_input_is_not_taken_for_the_notebook(project: Path, piped: bytes) -> None:
    """Papermill alone would read the pipe and take the one argument for the output."""
    done = subprocess.run(
        [*PAPERMILL, "notebooks/x.py"], cwd=project, input=piped, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert files(project) == {"book/figures/x.ipynb"}


def test_explicit_output_and_parameters(project: Path) -> None:
    done = run(project, "notebooks/x.py", "runs/seed7.ipynb", "-p", "seed", "7", "-r", "mode", "good")
    assert done.returncode == 0, done.stderr
    assert files(project) == {"runs/seed7.ipynb"}
    assert printed(project / "runs/seed7.ipynb").startswith("profile cpu, seed 7\n")


def test_explicit_output_on_a_terminal(project: Path) -> None:
    code, shown = run_on_terminal(project, "notebooks/x.py", "out.ipynb", "-p", "seed", "8")
    assert code == 0, shown
    assert files(project) == {"out.ipynb"}
    assert printed(project / "out.ipynb").startswith("profile cpu, seed 8\n")


def test_standard_output_on_request(project: Path) -> None:
    done = run(project, "notebooks/x.py", "-")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["cells"]) == 4
    assert files(project) == set()


@pytest.mark.parametrize("how", [("-p", "profile", "smoke"), ("-y", "{profile: smoke}")])
def test_other_profiles_leave_the_committed_notebook_alone(project: Path, how: tuple[str, ...]) -> None:
    done = run(project, "notebooks/x.py", *how)
    assert done.returncode == 0, done.stderr
    assert files(project) == {"book/_runs/smoke/x.ipynb"}


def test_prepare_only_leaves_the_committed_notebook_alone(project: Path) -> None:
    done = run(project, "notebooks/x.py", "--prepare-only", "-p", "seed", "5")
    assert done.returncode == 0, done.stderr
    assert files(project) == {"book/_runs/prepared/x.ipynb"}


def test_help_shows_parameters_with_types_and_comments(project: Path) -> None:
    done = run(project, "notebooks/x.py", "--help-notebook")
    assert done.returncode == 0, done.stderr
    lines = " ".join(done.stdout.split())
    assert 'profile: str (default "cpu") smoke, cpu or paper' in lines
    assert "seed: int (default 3) of everything random" in lines  # no annotation: the default's type
    assert files(project) == set()


def test_command_help_mentions_text_notebooks(project: Path) -> None:
    shown = run(project, "--help").stdout
    assert "Text notebooks" in shown
    assert "_runs/<profile>/" in shown


def test_unknown_parameter_lists_the_valid_ones(project: Path) -> None:
    done = run(project, "notebooks/x.py", "-p", "sed", "1")
    assert done.returncode != 0
    assert "no parameter 'sed'" in done.stderr
    assert "Did you mean 'seed'?" in done.stderr
    for line in ("profile: str", "seed: int = 3", "mode: str"):
        assert line in done.stderr
    assert "Traceback" not in done.stderr
    assert files(project) == set()


def test_unknown_profile_lists_the_valid_ones(project: Path) -> None:
    done = run(project, "notebooks/x.py", "-p", "profile", "huge")
    assert done.returncode != 0
    assert "no profile 'huge'" in done.stderr
    assert "smoke, cpu, paper" in done.stderr
    assert files(project) == set()


def test_a_notebook_without_profiles_may_use_the_name_freely(project: Path) -> None:
    (project / "notebooks/y.py").write_text('# %% tags=["parameters"]\nname = ""\n\n# %%\nprint(name)\n')
    assert run(project, "notebooks/y.py", "-p", "name", "huge").returncode == 0
    refused = run(project, "notebooks/y.py", "-p", "profile", "smoke")
    assert refused.returncode != 0
    assert "no parameter 'profile'" in refused.stderr


def test_missing_notebook_is_named_with_what_exists(project: Path) -> None:
    done = run(project, "notebooks/z.py")
    assert done.returncode != 0
    assert "there is no notebook notebooks/z.py" in done.stderr
    assert "x.py" in done.stderr
    assert files(project) == set()


@pytest.mark.parametrize("mode", ["fail", "die", "exit"])
def test_failure_keeps_the_last_good_output(project: Path, mode: str) -> None:
    twin, failed = project / "book/figures/x.ipynb", project / "book/figures/x.failed.ipynb"
    assert run(project, "notebooks/x.py").returncode == 0
    good = twin.read_bytes()

    done = run(project, "notebooks/x.py", "-p", "mode", mode)
    assert done.returncode != 0
    assert twin.read_bytes() == good
    assert files(project) == {"book/figures/x.ipynb", "book/figures/x.failed.ipynb"}
    if mode != "die":  # a killed kernel takes its unsent output with it
        assert "profile cpu, seed 3" in printed(failed)
    assert "x.failed.ipynb" in done.stderr
    assert "x.ipynb is left as it was" in done.stderr

    assert run(project, "notebooks/x.py").returncode == 0
    assert files(project) == {"book/figures/x.ipynb"}


def test_first_run_that_fails_leaves_no_output(project: Path) -> None:
    assert run(project, "notebooks/x.py", "-p", "mode", "fail").returncode != 0
    assert files(project) == {"book/figures/x.failed.ipynb"}


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_run_keeps_the_last_good_output(project: Path, signal_number: int) -> None:
    twin, running = project / "book/figures/x.ipynb", project / "book/figures/x.running.ipynb"
    assert run(project, "notebooks/x.py").returncode == 0
    good = twin.read_bytes()
    process = subprocess.Popen(
        [*PAPERMILL, "notebooks/x.py", "-p", "mode", "wait", "--autosave-cell-every", "1"],
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (running.exists() and '"status": "running"' in running.read_text()):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal_number)
        assert process.wait(timeout=60) != 0
    finally:
        # The kernel of a killed papermill outlives it for a moment.
        if process.poll() is None:
            process.kill()
            process.wait()
    assert twin.read_bytes() == good


def test_a_source_is_never_an_output(project: Path) -> None:
    plain = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(1)")])
    plain.metadata["kernelspec"] = {"name": "python3", "language": "python", "display_name": "Python 3"}
    nbformat.write(plain, project / "plain.ipynb")
    for source in ("notebooks/x.py", "plain.ipynb"):
        done = run(project, source, "notebooks/x.py")
        assert done.returncode != 0
        assert "never written" in done.stderr
    script = "import papermill, sys; papermill.execute_notebook(*sys.argv[1:], progress_bar=False)"
    for source in ("notebooks/x.py", "plain.ipynb"):
        done = subprocess.run(
            [sys.executable, "-c", script, source, "notebooks/x.py"],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode != 0
        assert "TextNotebookError" in done.stderr


def test_python_interface(project: Path) -> None:
    script = """
import papermill
notebook = papermill.execute_notebook("notebooks/x.py", None, parameters={"seed": 9}, progress_bar=False)
print(notebook.cells[3].outputs[0].text.splitlines()[0])
papermill.execute_notebook("notebooks/x.py", "api.ipynb", progress_bar=False)
print(sorted(papermill.inspect_notebook("notebooks/x.py")))
try:
    papermill.execute_notebook("notebooks/x.py", "no.ipynb", parameters={"sed": 9}, progress_bar=False)
except ValueError as error:
    print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "profile cpu, seed 9",
        "['mode', 'profile', 'seed']",
        "TextNotebookError",
    ]
    assert files(project) == {"api.ipynb"}


def test_runs_in_the_folder_asked_for(project: Path) -> None:
    (project / "elsewhere").mkdir()
    (project / "notebooks/where.py").write_text("# %%\nimport os\nprint(os.path.basename(os.getcwd()))\n")
    done = run(project, "notebooks/where.py", "--cwd", "elsewhere")
    assert done.returncode == 0, done.stderr
    assert printed(project / "book/figures/where.ipynb") == "elsewhere\n"


def test_two_runs_differ_only_in_times(project: Path) -> None:
    def ids_and_sources() -> list[tuple[str, str]]:
        assert run(project, "notebooks/x.py", "-p", "seed", "4").returncode == 0
        cells = nbformat.read(project / "book/figures/x.ipynb", as_version=4).cells
        return [(cell.id, cell.source) for cell in cells if "# Parameters" not in cell.source] + [
            (cell.id, "") for cell in cells if "# Parameters" in cell.source
        ]

    assert ids_and_sources() == ids_and_sources()


def test_tags_and_relative_paths_reach_the_output(project: Path) -> None:
    assert (
        run(project, str(project / "notebooks/x.py"), str(project / "book/figures/x.ipynb")).returncode == 0
    )
    text = (project / "book/figures/x.ipynb").read_text()
    notebook = nbformat.reads(text, as_version=4)
    assert [c.metadata.tags for c in notebook.cells] == [[], ["parameters"], ["hide-input"], []]
    assert str(project) not in text
    assert "text_source" not in text


def test_without_pairing_the_output_lies_beside_the_source(tmp_path: Path, project: Path) -> None:
    alone = project / "alone"
    alone.mkdir()
    (alone / "n.py").write_text("# %%\nprint(1)\n")
    assert run(alone, "n.py").returncode == 0
    assert files(alone) == {"n.py", "n.ipynb"}
