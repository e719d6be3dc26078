"""Recording, validating, and every results file that is committed."""

import copy
import json
import time
from pathlib import Path

import pytest

from reconlib import catalogue, provenance
from reconlib.controls import compare
from reconlib.data import load_task
from reconlib.probe import changes, run_probes
from reconlib.results import record, validate
from reconlib.verdicts import (
    badge,
    claims_markdown,
    coverage,
    load_results,
    provenance_markdown,
    rows,
)

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = sorted((ROOT / "book" / "results").glob("*.json"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "notebooks" / "fig10_classes_fixed_n.py").write_text("# %%\nx = 1\n")
    monkeypatch.delenv("RECONLIB_RESULTS", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(profile="cpu"):
    task = load_task("fashion_mnist_mini", "even_vs_odd_classes", per_class=10)
    result = record("fig10_classes_fixed_n", profile, {"seed": 0, "widths": [10, 20]})
    with result.stage("judge"):
        result.control("truth", compare(task.x, task))
    result.data(task)
    result.metric("good", [3, 4, 5], unit="images")
    result.table("curve", classes=[2, 10], good=[1, 7.5], note=["a", None])
    result.claim("B10-six-times", count_ratio=[7, 8, 9], held_out_ratio=[0, 0, 0])
    return result


@pytest.fixture
def saved(project):
    return json.loads(make().save().read_text())


def test_a_record_is_saved_judged_and_complete(project):
    path = make().save()
    assert path == project / "book" / "results" / "fig10_classes_fixed_n.json"
    stored = json.loads(path.read_text())
    validate(stored)
    by_id = {c["id"]: c for c in stored["claims"]}
    assert by_id["B10-six-times"]["verdict"] == "reproduced" and by_id["B10-six-times"]["seeds"] == 3
    assert by_id["B10-quality"]["verdict"] == "not run"
    assert stored["metrics"]["good"]["mean"] == 4
    assert stored["tables"]["curve"] == {"classes": [2, 10], "good": [1, 7.5], "note": ["a", None]}
    assert len(stored["controls"]["truth"]["attack"]["ssim"]) == 20
    assert stored["peak_memory_mb"] > 50 and stored["seconds"] >= stored["stages"]["judge"]["seconds"] > 0
    assert "reconlib.matching" in stored["provenance"]["modules"]
    assert list(stored["provenance"]["data"]) == ["fashion_mnist_mini/even_vs_odd_classes/10"]
    assert stored["probe"].keys() >= {"ssim", "matching"}


def test_other_profiles_and_redirection_do_not_touch_the_book(project, monkeypatch):
    assert make("smoke").save() == project / "book" / "_runs" / "smoke" / "fig10_classes_fixed_n.json"
    monkeypatch.setenv("RECONLIB_RESULTS", str(project / "elsewhere"))
    assert make().save() == project / "elsewhere" / "cpu" / "fig10_classes_fixed_n.json"
    assert not (project / "book" / "results").exists()


def test_a_failed_run_writes_nothing(project):
    with pytest.raises(RuntimeError), make() as result:
        raise RuntimeError("attack diverged")
    assert not result.path.exists()
    with make() as result:
        pass
    assert result.path.exists()


def test_cached_work_counts_as_cost_but_not_as_wall_time(project):
    result = make()
    result.seconds("attack of an earlier run", 100, cached=True)
    result.seconds("attack of an earlier run", 20, cached=True)
    stored = result.to_dict()
    assert stored["seconds"] == pytest.approx(stored["wall_seconds"] + 120)
    assert stored["stages"]["attack of an earlier run"] == {"seconds": 120, "cached": True}


def test_stages_add_up(project):
    result = make()
    for _ in range(2):
        with result.stage("wait"):
            time.sleep(0.02)
    assert result.to_dict()["stages"]["wait"]["seconds"] >= 0.04


def test_wrong_use_is_explained(project):
    result = make()
    with pytest.raises(ValueError, match="belongs to fig5_weight_decay"):
        result.claim("B5-quantity", binary_ratio=2, multiclass_ratio=2, held_out_ratio=0)
    with pytest.raises(KeyError, match="no claim"):
        result.claim("B10-unheard-of", x=1)
    with pytest.raises(ValueError, match="different lengths"):
        result.table("curve", a=[1, 2], b=[1])
    with pytest.raises(ValueError, match="use None"):
        result.table("curve", a=[float("nan")])
    with pytest.raises(ValueError, match="finite"):
        result.metric("good", float("inf"))
    with pytest.raises(ValueError, match="smoke, cpu, paper"):
        record("fig10_classes_fixed_n", "gpu")


def typed_verdict(stored):
    stored["claims"][1]["verdict"] = "reproduced"


def lowered_verdict(stored):
    stored["claims"][0]["verdict"] = "partly"


def moved_rule(stored):
    stored["claims"][0]["rules"][0]["reproduced"] = 100


def machine_path(stored):
    stored["parameters"]["root"] = "/home/somebody/data"


def windows_path(stored):
    stored["parameters"]["root"] = "C:\\data"


def missing_probe(stored):
    stored["probe"] = {}


def missing_provenance(stored):
    del stored["provenance"]["lock"]


def short_hash(stored):
    stored["provenance"]["modules"]["reconlib.ssim"] = "abc"


def host_name(stored):
    stored["provenance"]["hardware"]["host"] = "box"


def unknown_field(stored):
    stored["comment"] = "looks good"


def no_claims(stored):
    del stored["claims"]


def text_for_number(stored):
    stored["metrics"]["good"]["mean"] = "4"


def empty_values(stored):
    stored["metrics"]["good"]["values"] = []


@pytest.mark.parametrize(
    "damage",
    [
        typed_verdict,
        lowered_verdict,
        moved_rule,
        machine_path,
        windows_path,
        missing_probe,
        missing_provenance,
        short_hash,
        host_name,
        unknown_field,
        no_claims,
        text_for_number,
        empty_values,
    ],
)
def test_the_validator_refuses_a_damaged_record(saved, damage):
    validate(saved)
    broken = copy.deepcopy(saved)
    damage(broken)
    with pytest.raises(ValueError):
        validate(broken)


def test_an_invalid_record_is_not_written(project):
    result = record("fig10_classes_fixed_n", parameters={"root": "/home/somebody/data"})
    with pytest.raises(ValueError, match="path of this machine"):
        result.save()
    assert not result.path.exists()


def test_the_verdict_table_has_every_claim_and_shows_what_is_stale(project):
    empty = rows(project)
    assert [r.claim.id for r in empty] == list(catalogue.CLAIMS)
    assert {r.verdict for r in empty} == {"not run"}
    assert coverage(project)["B"] == (0, 17)

    path = make().save()
    found = {r.claim.id: r for r in rows(project)}
    row = found["B10-six-times"]
    assert (row.verdict, row.seeds, row.stale) == ("reproduced", 3, ())
    assert "8 (7 to 9)" in row.numbers and "held_out_ratio 0" in row.control
    assert coverage(project)["B"] == (1, 17)

    stored = json.loads(path.read_text())
    stored["provenance"]["modules"]["reconlib.ssim"] = "0" * 64
    for claim in stored["claims"]:
        claim["rules"][0]["partly"] -= 0.001
    path.write_text(json.dumps(stored))
    assert {r.claim.id: r for r in rows(project)}["B10-six-times"].stale == ("reconlib.ssim", "rule")


def test_pages_can_show_a_record(saved):
    table = claims_markdown(saved)
    assert badge("reproduced") in table and badge("not run") in table
    assert all(claim["statement"] in table for claim in saved["claims"])
    footer = provenance_markdown(saved)
    assert saved["provenance"]["lock"] is None and "torch" in footer and "seed 0" in footer


@pytest.mark.skipif(not COMMITTED, reason="no results are committed yet")
@pytest.mark.parametrize("path", COMMITTED, ids=lambda p: p.stem)
def test_committed_results_are_valid(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    validate(stored)
    assert stored["notebook"] == path.stem and stored["profile"] == "cpu"
    assert (ROOT / "notebooks" / f"{path.stem}.py").is_file()
    assert {c["id"] for c in stored["claims"]} == {c.id for c in catalogue.claims_of(path.stem)}


@pytest.mark.skipif(not COMMITTED, reason="no results are committed yet")
@pytest.mark.parametrize("path", COMMITTED, ids=lambda p: p.stem)
def test_committed_results_have_controls(path):
    """Every experiment on images beside held-out images and noise, with rates that carry intervals."""
    controls = json.loads(path.read_text(encoding="utf-8"))["controls"]
    assert controls
    for name, report in controls.items():
        if "attack" not in report:  # experiments without candidates for images have controls of their own
            continue
        assert {"held_out", "noise"} <= set(report["controls"]), name
        assert report["controls"]["held_out"]["n"] == report["attack"]["n"], name
        (rate,) = [r for r in report["rates"] if r["target"] == 0.01]
        low, high = rate["true_positive_interval"]
        assert low <= rate["true_positive_rate"] <= high and rate["false_positive_rate"] <= 0.01, name


@pytest.mark.skipif(not COMMITTED, reason="no results are committed yet")
def test_probes_of_committed_results_still_hold():
    """Code may change; what a fixed problem gives may not, or a page shows numbers that are no more."""
    fresh = run_probes()
    results = load_results(ROOT)
    moved = {name: lines for name, stored in results.items() if (lines := changes(stored["probe"], fresh))}
    commands = [f"make figure FIG={name} PROFILE=cpu" for name in moved]
    assert not moved, f"{moved}\nremake with:\n" + "\n".join(commands)


def test_stale_results_of_this_project_can_be_listed():
    assert provenance.main(["stale", "--root", str(ROOT)]) == 0
