"""Hashes see code and nothing else; stale results are listed with their command."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reconlib import provenance
from reconlib.probe import PROBES, Probe, changes, probe, run_probes
from reconlib.provenance import code_hash, gather, module_hashes, notebook_hash, project_root, stale

CODE = '''"""What it is for."""

import math  # why


def area(r):
    """The area."""
    text = "# not a comment"
    return math.pi * r**2, text
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("What it is for.", "Something else."),
        ("The area.", "The area\n    of a disc."),
        ("  # why", "  # because\n# of that"),
        ("\n\n\ndef", "\ndef"),
    ],
)
def test_rewording_keeps_the_hash(old, new):
    assert CODE.replace(old, new) != CODE
    assert code_hash(CODE.replace(old, new)) == code_hash(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r**2", "r**3"),
        ("# not a comment", "# changed string"),
        ("math.pi", "math.tau"),
        ("area(r)", "area(r=1)"),
    ],
)
def test_a_change_of_code_changes_the_hash(old, new):
    assert code_hash(CODE.replace(old, new)) != code_hash(CODE)


def test_edge_cases_of_the_hash():
    assert code_hash("") == code_hash("# only a comment\n")
    assert code_hash('def f():\n    """Only a docstring."""\n') == code_hash('def f():\n    """Another."""\n')
    assert code_hash('x = 1\n"""A string that is no docstring."""\n') != code_hash("x = 1\n")


def test_every_module_has_a_hash():
    hashes = module_hashes()
    assert {"reconlib", "reconlib.matching", "reconlib.catalogue.haim", "reconlib.provenance"} <= set(hashes)


def test_only_loaded_modules_count_as_used():
    script = "import reconlib.ssim; from reconlib.provenance import used_modules; print(*used_modules())"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["reconlib.ssim"]


def test_record_names_neither_machine_nor_path(tmp_path):
    text = json.dumps(gather(tmp_path, "none", module_hashes(), {"task": "0" * 64}))
    assert str(Path.home()) not in text and str(Path.cwd()) not in text and str(tmp_path) not in text
    host = socket.gethostname()
    assert len(host) < 4 or host not in text


def test_a_second_record_of_a_run_names_the_same_code(tmp_path):
    """Probes load modules that a notebook may not have used; those are no part of its provenance."""
    script = (
        "import sys, pathlib, reconlib.ssim\n"
        "from reconlib.results import record\n"
        "result = record('fig10_classes_fixed_n', root=pathlib.Path(sys.argv[1]))\n"
        "first, second = (sorted(result.to_dict()['provenance']['modules']) for _ in range(2))\n"
        "assert 'reconlib.probe' in sys.modules and 'reconlib.attack' in sys.modules\n"
        "print(*first); print(*second)\n"
    )
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").touch()
    run = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    first, second = run.stdout.splitlines()
    assert first.split() == second.split() == ["reconlib.ssim"]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book" / "results").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "notebooks" / "fig.py").write_text("# %% [markdown]\n# Prose\n# %%\nx = 1\n")
    return tmp_path


def store(project, modules):
    result = {
        "notebook": "fig",
        "profile": "cpu",
        "provenance": {"modules": modules, "notebook": notebook_hash(project, "fig")},
    }
    (project / "book" / "results" / "fig.json").write_text(json.dumps(result))


def test_fresh_results_are_not_listed(project, capsys):
    store(project, {"reconlib.ssim": module_hashes()["reconlib.ssim"]})
    assert stale(project) == []
    assert provenance.main(["--root", str(project)]) == 0
    assert "All 1 results" in capsys.readouterr().out


def test_changed_and_vanished_modules_are_listed_with_the_command(project, capsys):
    fresh = module_hashes()["reconlib.ssim"]
    store(project, {"reconlib.ssim": fresh, "reconlib.matching": "0" * 64, "reconlib.gone": "0" * 64})
    (entry,) = stale(project)
    assert entry.modules == ("reconlib.matching", "reconlib.gone") and not entry.notebook_changed
    provenance.main(["stale", "--root", str(project)])
    shown = capsys.readouterr().out
    assert "reconlib.matching" in shown and "make figure FIG=fig PROFILE=cpu" in shown
    assert "reconlib.ssim" not in shown


def test_a_notebook_ages_by_its_code_not_by_its_prose(project):
    store(project, {})
    path = project / "notebooks" / "fig.py"
    path.write_text(path.read_text().replace("Prose", "Better prose"))
    assert stale(project) == []
    path.write_text(path.read_text().replace("x = 1", "x = 2"))
    assert stale(project)[0].notebook_changed


def test_the_project_is_found_from_below(project):
    (project / "book" / "figures").mkdir()
    assert project_root(project / "book" / "figures") == project


def test_probes_are_the_same_twice_and_take_seconds():
    assert run_probes() == run_probes()


def test_probes_tell_a_change_that_matters():
    fresh = run_probes()
    assert changes(fresh, fresh) == []
    moved = json.loads(json.dumps(fresh))
    moved["matching"]["held-out ssim"] += 1e-3
    assert changes(moved, fresh) and "held-out ssim" in changes(moved, fresh)[0]
    assert changes({"gone": {"x": 1.0}}, fresh) == ["probe gone no longer exists"]
    assert "no longer gives" in changes({"ssim": {"vanished": 1.0}}, fresh)[0]
    assert changes({"ssim": {"published": float("nan")}}, fresh)
    older = {"ssim": fresh["ssim"]}
    assert changes(older, fresh) == []


def test_probes_notice_a_changed_judge(monkeypatch):
    import reconlib.matching as matching

    stored = run_probes()
    monkeypatch.setattr(matching, "stretch", lambda images: images)
    assert any("matching" in line for line in changes(stored, run_probes()))


def test_a_probe_name_is_taken_once(monkeypatch):
    monkeypatch.setitem(PROBES, "taken", Probe("taken", 1e-5, dict))
    with pytest.raises(ValueError, match="already"):
        probe("taken")(dict)
