"""What figure pages show of the runs behind them: printed tables, provenance, code that has changed since."""

# ruff: noqa: F401, F811 (fixtures are imported)
from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from book_build import ROOT, site
from test_site_pages import NOTEBOOK, extension, judged, text_of

from reconlib import provenance
from reconlib import site as generated
from reconlib.catalogue import claims_of

RULE = re.compile(r"\|\s*:?[-–—]+:?\s*\|")  # between the head and the body of a table in Markdown
TWINS = sorted(p for p in (ROOT / "book/figures").glob("*.ipynb") if "." not in p.stem)
each_page = pytest.mark.parametrize("name", [p.stem for p in TWINS])


@each_page
def test_tables_that_a_notebook_prints_are_tables_on_its_page(site: Path, name: str) -> None:
    cells = nbformat.read(ROOT / f"book/figures/{name}.ipynb", as_version=4).cells
    printed = [o for c in cells for o in c.get("outputs", []) if "text/markdown" in o.get("data", {})]
    expected = sum(bool(RULE.search(o.data["text/markdown"])) for o in printed)
    html = (site / f"figures/{name}.html").read_text(encoding="utf-8")
    outputs = re.split(r'<div class="cell_output', html)[1:]
    assert sum("<table" in part.split('<div class="cell ')[0] for part in outputs) >= expected
    prose = re.sub(r"<(pre|script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert RULE.findall(text_of(prose)) == []


def test_a_table_that_is_not_read_as_one_would_be_seen() -> None:
    assert RULE.search(text_of("<p>| network | n | |—|—| | two classes | 500 |</p>"))
    assert not RULE.search("the norm |x| − |y|, from 0 – 1")


@each_page
def test_the_code_of_a_figure_lies_behind_a_button(site: Path, name: str) -> None:
    html = (site / f"figures/{name}.html").read_text(encoding="utf-8")
    shown = len(re.findall(r'<div class="cell_input\b', html))
    folded = len(re.findall(r'<details class="[^"]*above-input[^"]*">', html))
    assert 0 < folded <= shown
    assert folded == shown or not claims_of(name)


@each_page
def test_a_page_names_the_code_lock_and_date_of_its_results(site: Path, name: str) -> None:
    html = text_of((site / f"figures/{name}.html").read_text(encoding="utf-8"))
    origin = json.loads((ROOT / f"book/results/{name}.json").read_text(encoding="utf-8"))["provenance"]
    for part in (provenance.combined_hash(origin["modules"]), origin["notebook"], origin["lock"]):
        assert part[:12] in html
    assert origin["date"][:10] in html and origin["hardware"]["processor"] in html


@each_page
def test_a_page_says_whether_its_code_has_changed(site: Path, name: str) -> None:
    html = (site / f"figures/{name}.html").read_text(encoding="utf-8")
    head = html[html.index('class="site-head"') :].split("</div>")[0]
    result = json.loads((ROOT / f"book/results/{name}.json").read_text(encoding="utf-8"))
    assert ("older code" in head) == (provenance.staleness(result, ROOT) is not None)


def test_changed_code_is_named_at_the_top_of_the_page(judged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "changed"
    shutil.copytree(judged, copy)
    assert "older code" not in generated.page_head(copy, NOTEBOOK, "verdicts.html", {})
    (copy / f"notebooks/{NOTEBOOK}.py").write_text("# %%\nprint(2)\n")
    head = generated.page_head(copy, NOTEBOOK, "verdicts.html", {})
    assert "older code: notebook" in head
    assert f"make figure FIG={NOTEBOOK} PROFILE=cpu" in head


def test_long_names_break_between_their_words() -> None:
    offline = extension("offline")
    long = '<code><span class="pre">test_a_name_that_is_longer_than_a_column</span></code>'
    broken = offline.between_words(long)
    assert "longer_<wbr>than_<wbr>a" in broken and broken.replace("<wbr>", "") == long
    short = '<span class="pre">task.x</span> <span class="pre">multiplier_min</span>'
    assert offline.between_words(short) == short
