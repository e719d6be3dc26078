"""The benchmark runner: what it runs, what it writes, and that it does not hide a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import benchmarks.__main__ as runner
from benchmarks import CASES, Measurement, case


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cases instead of the real ones, which take minutes."""
    monkeypatch.setattr(runner, "discover", lambda: None)
    kept = dict(CASES)
    CASES.clear()

    @case("quick")
    def quick() -> Measurement:
        return Measurement(ours=2.0, reference=16.0, unit="s", extra={"peak_mb": 3})

    @case("share")
    def share() -> Measurement:
        return Measurement(ours=30.0, reference=40.0, unit="Gflop/s", higher_is_better=True)

    @case("e2e_long", e2e=True)
    def long() -> Measurement:
        raise RuntimeError("this case breaks")

    yield
    CASES.clear()
    CASES.update(kept)


def results(path: Path) -> dict[str, dict]:
    return {entry["name"]: entry for entry in json.loads(path.read_text())}


def test_quick_cases_by_default_with_ratios(
    cases: None, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    output = tmp_path / "results.json"
    assert runner.main(["--output", str(output)]) == 0
    written = results(output)
    assert set(written) == {"quick", "share"}
    assert written["quick"]["ratio"] == 8.0
    assert written["share"]["ratio"] == 0.75
    assert written["quick"]["peak_mb"] == 3
    assert {"ours", "reference", "unit", "seconds", "machine", "date"} <= set(written["quick"])
    assert "quick" in capsys.readouterr().out


def test_results_are_merged_by_name(cases: None, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    output.write_text(json.dumps([{"name": "older", "ours": 1}, {"name": "quick", "ours": 99}]))
    assert runner.main(["--only", "qui*", "--output", str(output)]) == 0
    written = results(output)
    assert set(written) == {"older", "quick"}
    assert written["older"] == {"name": "older", "ours": 1}
    assert written["quick"]["ours"] == 2.0


def test_a_failing_case_fails_the_run_and_writes_nothing(cases: None, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    assert runner.main(["--e2e", "--output", str(output)]) == 1
    assert not output.exists()
    assert runner.main(["--only", "e2e_long", "--only", "quick", "--output", str(output)]) == 1
    assert set(results(output)) == {"quick"}


def test_unknown_name_lists_what_exists(cases: None) -> None:
    with pytest.raises(SystemExit, match=r"no benchmark matches 'slow'.*e2e_long, quick, share"):
        runner.main(["--only", "slow"])


def test_two_cases_of_one_name_are_refused(cases: None) -> None:
    with pytest.raises(ValueError, match="two benchmarks named 'quick'"):
        case("quick")(lambda: Measurement(1.0, None, "s"))
