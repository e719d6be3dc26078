"""Pages that write themselves: verdicts, executions, frames of figures, code that runs, reference."""

# ruff: noqa: F401, F811 (fixtures are imported)
from __future__ import annotations

import csv
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from book_build import REPOSITORY, ROOT, References, pages, site

from reconlib import catalogue, verdicts
from reconlib import site as generated
from reconlib.claims import NOT_RUN, PAPERS
from reconlib.results import record

NOTEBOOK = "fig10_classes_fixed_n"


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def row(html: str, claim: str) -> str:
    return re.search(rf'<tr id="{claim}">(.*?)</tr>', html, re.DOTALL)[1]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the claims of one notebook were judged, one of them by three seeds."""
    root = tmp_path_factory.mktemp("judged")
    (root / "notebooks").mkdir()
    (root / "pyproject.toml").touch()
    (root / "requirements.lock").touch()
    (root / f"notebooks/{NOTEBOOK}.py").write_text("# %%\nprint(1)\n")
    with record(NOTEBOOK, "cpu", {"seed": 0}, root=root) as result:
        result.claim("B10-six-times", count_ratio=[6.5, 7.0, 9.0], held_out_ratio=[0.02, 0.03, 0.04])
        result.claim("B10-quality", ssim_gain=-0.2)
        result.table("counts & classes", classes=[2, 10], good=[17, 44])
        result.seconds("attack", 4000.0, cached=True)
    return root


# --- the verdict page


def test_every_claim_and_every_figure_of_the_papers_is_on_the_verdict_page(site: Path) -> None:
    html = (site / "verdicts.html").read_text(encoding="utf-8")
    for claim in catalogue.CLAIMS.values():
        cells = text_of(row(html, claim.id))
        assert claim.statement in cells.replace("&#x27;", "'")
        assert f"make figure FIG={claim.notebook} PROFILE=cpu" in cells
        for rule in claim.rules:
            assert rule.metric in cells
    table = html[html.index("Every figure") :]
    for figure in catalogue.FIGURES:
        name = f"{PAPERS[figure.paper].split(' et al.')[0]} {figure.number}"
        assert f'<th scope="row">{name}</th>' in table, name


def test_the_verdict_page_agrees_with_the_committed_results(site: Path) -> None:
    html = (site / "verdicts.html").read_text(encoding="utf-8")
    for found in verdicts.rows(ROOT):
        cells = row(html, found.claim.id)
        assert verdicts.badge(found.verdict) in cells
        page = f"figures/{found.claim.notebook}.html"
        assert (page in cells) == (site / page).exists()
    for done, all_ in verdicts.coverage(ROOT).values():
        assert f"{done} of {all_}" in text_of(html)


def test_a_judged_claim_shows_number_range_control_cost_and_rule(judged: Path) -> None:
    html = generated.verdict_table(judged, "B", lambda name: f"figures/{name}.html")
    cells = row(html, "B10-six-times")
    assert verdicts.badge("reproduced") in cells
    words = text_of(cells)
    for part in (
        "count_ratio 7.5 (6.5 to 9)",
        "held_out_ratio 0.03 (0.02 to 0.04)",
        "3 seeds",
        "more than 6×",
        "67 min",
    ):
        assert part in words, part
    assert "reproduced at ≥ 6, partly at ≥ 2; found 7.5 (6.5 to 9)" in words
    assert "guard, reproduced at ≤ 0.1" in words
    assert f'<a href="figures/{NOTEBOOK}.html">Figure 10</a>' in cells
    assert verdicts.badge("not reproduced") in row(html, "B10-quality")
    assert verdicts.badge(NOT_RUN) in row(html, "B17-few-dozen")


def test_the_landing_page_counts_what_the_verdict_page_lists(judged: Path) -> None:
    html = generated.summary(judged, "verdicts.html")
    (line,) = re.findall(r"<tr><th[^>]*><a href=\"verdicts.html#paper-b\">.*?</tr>", html)
    all_claims = sum(c.paper == "B" for c in catalogue.CLAIMS.values())
    assert re.findall(r"<td>(.*?)</td>", line) == ["1 of 17", "1", "0", "1", str(all_claims - 2)]
    assert "<strong>1 of 17</strong> of Buzaglo" in generated.coverage_line(judged)


def test_changed_code_is_named_beside_a_verdict(judged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "changed"
    shutil.copytree(judged, copy)
    assert "older code" not in row(generated.verdict_table(copy, "B", lambda name: None), "B10-six-times")
    (copy / f"notebooks/{NOTEBOOK}.py").write_text("# %%\nprint(2)\n")
    assert "older code: notebook" in row(
        generated.verdict_table(copy, "B", lambda name: None), "B10-six-times"
    )
    assert "older code: notebook" in generated.execution_table(copy, lambda name: None)
    assert f"FIG={NOTEBOOK}" in generated.verdict_table(copy, "B", lambda name: None)


def test_unknown_papers_are_refused(judged: Path) -> None:
    with pytest.raises(KeyError, match="H, B, R"):
        generated.verdict_table(judged, "X", lambda name: None)


def test_the_execution_page_lists_every_run(site: Path) -> None:
    html = text_of((site / "executions.html").read_text(encoding="utf-8"))
    for name, result in verdicts.load_results(ROOT).items():
        assert name in html
        assert generated.duration(result["seconds"]) in html
        assert f"{result['peak_memory_mb']:.0f} MB" in html
        assert result["provenance"]["date"][:10] in html


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (99, "99 s"), (125, "2 min"), (9000, "2.5 h")])
def test_durations_are_in_a_readers_unit(seconds: float, text: str) -> None:
    assert generated.duration(seconds) == text


# --- the frame of a figure's page


def test_a_figure_page_begins_with_the_verdicts_of_its_claims(judged: Path) -> None:
    html = generated.page_head(judged, NOTEBOOK, "../verdicts.html", {"notebook": "x.ipynb"})
    assert html.index(verdicts.badge("reproduced")) < html.index("../verdicts.html#B10-six-times")
    assert verdicts.badge("not reproduced") in html and "67 min" in html and 'href="x.ipynb"' in html


def test_what_else_was_tried_stands_beneath_a_claim_that_is_not_reproduced(
    judged: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "tried"
    shutil.copytree(judged, copy)
    before = generated.page_head(copy, NOTEBOOK, "verdicts.html", {})
    with record(generated.TRIED, "cpu", {"seed": 0}, root=copy) as result:
        result.metric("B10-quality: longer training", -0.125, unit="SSIM & more")
        result.metric("B10-quality: a search", 0.5, unit="SSIM & more")
        result.metric("B10-six-times: longer training", 9.0, unit="count")
    head = generated.page_head(copy, NOTEBOOK, "verdicts.html", {})
    told = "What else was tried (SSIM & more): longer training -0.12; a search 0.50."
    assert told in text_of(head).replace("&amp;", "&")
    assert head.index("#B10-quality") < head.index(f'<a href="{generated.TRIED}.html">')
    assert head.count("What else was tried") == 1, "a reproduced claim needs no more effort"
    assert "What else was tried" not in before
    assert "What else" not in generated.page_head(copy, generated.TRIED, "verdicts.html", {})


def test_every_figure_page_can_be_run_again_and_taken_away(site: Path, pages: dict[Path, References]) -> None:
    from papermill import inspect_notebook

    for path in (site / "figures").glob("*.html"):
        html, name = path.read_text(encoding="utf-8"), path.stem
        article = html[html.index("<article") :]
        assert article.index('class="site-head"') < article.index("<h2>")
        end = html[html.index('id="run-it-again"') :]
        assert f"make figure FIG={name} PROFILE=cpu\npapermill notebooks/{name}.py" in end
        for parameter in inspect_notebook(str(ROOT / f"notebooks/{name}.py")).values():
            assert f"<code>{parameter['name']}</code>" in end
            assert parameter["help"] in text_of(end).replace("&#x27;", "'").replace("&lt;", "<")
        result = json.loads((ROOT / f"book/results/{name}.json").read_text())
        for checksum in result["provenance"]["data"].values():
            assert checksum[:12] in end
        links = pages[path].links
        for suffix in (".ipynb", ".py", ".json"):
            assert f"../downloads/{name}{suffix}" in links
        for source, copy in ((f"book/figures/{name}.ipynb", ".ipynb"), (f"notebooks/{name}.py", ".py")):
            assert (site / f"downloads/{name}{copy}").read_bytes() == (ROOT / source).read_bytes()


def test_the_data_behind_a_figure_is_there_as_csv(site: Path, judged: Path) -> None:
    result = json.loads((ROOT / "book/results/quickstart.json").read_text())
    with (site / "downloads/quickstart-ssim.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    series = {
        "attack": result["controls"]["quickstart"]["attack"],
        **result["controls"]["quickstart"]["controls"],
    }
    for name, report in series.items():
        assert [float(r["ssim"]) for r in rows if r["set"] == name] == report["ssim"]
    data_files = extension("figure_pages").data_files
    stored = json.loads((judged / f"book/results/{NOTEBOOK}.json").read_text())
    assert data_files(stored) == {"counts_classes": "classes,good\n2,17\n10,44\n"}


def test_buttons_of_the_repository_where_its_address_is_known(
    site: Path, pages: dict[Path, References]
) -> None:
    address = f"https://github.com/{REPOSITORY}"
    for path in (site / "index.html", site / "figures/quickstart.html"):
        links = pages[path].links
        assert address in links
        assert any(link.startswith(f"{address}/issues/new") for link in links)
    colab = f"https://colab.research.google.com/github/{REPOSITORY}/blob/colab/quickstart.ipynb"
    assert colab in pages[site / "figures/quickstart.html"].links


def test_no_buttons_where_there_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = extension("repository").repository
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert repository(tmp_path) is None
    remote = ["git", "-C", tmp_path, "remote"]
    subprocess.run([*remote, "add", "origin", "git@github.com:some/one.git"], check=True)
    assert repository(tmp_path) == "some/one"
    subprocess.run([*remote, "set-url", "origin", "https://elsewhere.org/some/one"], check=True)
    assert repository(tmp_path) is None


# --- explained pages


def extension(name: str):
    sys.path.insert(0, str(ROOT / "book/extensions"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def test_every_row_of_the_errata_names_a_test_that_exists() -> None:
    rows = (ROOT / "book/errata.md").read_text(encoding="utf-8").split("* - ")[2:]
    assert len(rows) >= 8
    defined = {
        n for p in (ROOT / "tests").glob("*.py") for n in re.findall(r"^def (test_\w+)", p.read_text(), re.M)
    }
    for text in rows:
        named = re.findall(r"`(test_\w+)`", text)
        assert named, text[:80]
        assert set(named) <= defined


def test_the_decision_page_shows_the_defaults_and_benchmarks_as_they_are(site: Path) -> None:
    from reconlib.attack import DEFAULTS

    html = text_of((site / "choosing.html").read_text(encoding="utf-8"))
    for settings in DEFAULTS.values():
        assert f" {settings.steps} " in html and settings.equation in html
    for entry in json.loads((ROOT / "benchmarks/results.json").read_text()):
        if entry["name"].startswith("e2e_"):
            assert entry["name"] in html and f" {entry['good']} " in html


def test_code_in_the_text_was_run(site: Path) -> None:
    html = text_of((site / "own-model.html").read_text(encoding="utf-8"))
    assert re.search(r"\d+ of \d+ closer than 95 % of held-out images", html)
    exact = text_of((site / "how-it-works.html").read_text(encoding="utf-8"))
    assert float(re.search(r"at the training points: +(\d\S+)", exact)[1]) < 1e-9


def test_code_in_the_text_that_fails_or_warns_ends_the_build() -> None:
    run = extension("live").run
    names: dict[str, object] = {}
    assert run("a = 2\nprint('x')\na + 1", names, "page:1") == ("x\n", 3)
    assert run("b = a", names, "page:2") == ("", None)
    with pytest.raises(ZeroDivisionError):
        run("1 / 0", names, "page:3")
    with pytest.raises(UserWarning):
        run("import warnings\nwarnings.warn('old')", names, "page:4")


def test_reference_has_every_public_name_of_the_attack(site: Path, pages: dict[Path, References]) -> None:
    import reconlib.attack

    anchors = pages[site / "api.html"].anchors
    missing = [
        n for n in reconlib.attack.__all__ if n != "DEFAULTS" and f"reconlib.attack.{n}" not in anchors
    ]
    assert missing == []
    words = text_of((site / "api.html").read_text(encoding="utf-8"))
    assert "start_scale: float = 0.02 : σ of the candidates’ start" in words, "comments of fields are shown"


def test_docstrings_become_valid_text() -> None:
    plain_text = extension("docstrings").plain_text
    assert plain_text(["Takes `x` and |e|.", "- one", "  more", "- two", "Then *this*."]) == [
        "Takes ``x`` and \\|e\\|.", "", "- one", "  more", "- two", "", "Then \\*this\\*.",
    ]  # fmt: skip
    assert plain_text(["Use:", "", "a = f(1)", "g(a)"]) == ["Use:", "", "::", "", "    a = f(1)", "    g(a)"]


def test_every_work_cited_is_in_the_bibliography(site: Path) -> None:
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "book/references.bib").read_text(), re.MULTILINE))
    used: set[str] = set()
    for page in (ROOT / "book").glob("*.md"):
        for keys in re.findall(r"\{cite:[pt]\}`([^`]+)`", page.read_text(encoding="utf-8")):
            used |= set(keys.split(","))
    assert {"haim2022", "buzaglo2023", "runkel2024", "refael2025"} <= used <= known
    assert known <= used, "nothing is listed that no page speaks of"
    html = (site / "bibliography.html").read_text(encoding="utf-8")
    assert html.count('class="citation"') == len(known)


def test_terms_of_the_glossary_are_in_order() -> None:
    text = (ROOT / "book/glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^(?!```)(\S[^\n]*)\n  \S", text, re.MULTILINE)
    assert len(terms) > 20 and terms == sorted(terms, key=str.lower)


def test_pages_are_committed_text_of_this_project_only() -> None:
    """Words about the machine or its tools have no place in a page."""
    for page in (ROOT / "book").glob("*.md"):
        assert not re.search(r"/(?:work|tmp|root|home)/", page.read_text(encoding="utf-8")), page.name
