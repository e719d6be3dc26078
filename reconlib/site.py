"""What the book generates about itself: verdicts, coverage, cost, and the frame of every figure's page.

Everything is HTML made from `book/results/*.json` and the catalogue of claims while the book is built; no
number is typed. `link` turns a notebook's name into the address of its page, or None where there is none.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reconlib import catalogue, provenance, verdicts
from reconlib.claims import NOT_RUN, PAPERS, VERDICTS, Claim, Rule
from reconlib.text_notebooks import KEPT
from reconlib.verdicts import Row, badge, number

Link = Callable[[str], str | None]
ORDER = (*reversed(VERDICTS), NOT_RUN)  # best first
TRIED = "tried_harder"  # the notebook that spends more effort on claims that do not reproduce


def duration(seconds: float) -> str:
    """Seconds in the unit a reader would use."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def table(
    head: Sequence[str], body: Sequence[Sequence[str]], kind: str, ids: Sequence[str] = (), label: str = ""
) -> str:
    """A table of HTML cells; the first cell of a row is its heading. On a narrow screen rows become cards."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    rows = []
    for i, cells in enumerate(body):
        anchor = f' id="{html.escape(ids[i])}"' if ids else ""
        first = f'<th scope="row">{cells[0]}</th>'
        rest = "".join(
            f'<td data-label="{html.escape(name)}">{cell}</td>'
            for name, cell in zip(head[1:], cells[1:], strict=True)
        )
        rows.append(f"<tr{anchor}>{first}{rest}</tr>")
    return (
        f'<div class="site-scroll" role="region" aria-label="{label or kind}" tabindex="0">'
        f'<table class="table site-table site-{kind}"><thead><tr>{columns}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def coverage_line(root: Path) -> str:
    """How many figures of each paper have a judged claim."""
    parts = [
        f"<strong>{done} of {all_}</strong> of {html.escape(_authors(paper))}"
        for paper, (done, all_) in verdicts.coverage(root).items()
    ]
    return f'<p class="site-coverage">Figures and experiments covered: {", ".join(parts)}.</p>'


def summary(root: Path, page: str) -> str:
    """Counts of verdicts by paper, linked to the verdict page at `page`."""
    rows = verdicts.rows(root)
    covered = verdicts.coverage(root)
    body = []
    for paper in covered:
        counts = [sum(r.verdict == v for r in rows if r.claim.paper == paper) for v in ORDER]
        done, all_ = covered[paper]
        name = f'<a href="{page}#paper-{paper.lower()}">{html.escape(PAPERS[paper].split(",")[0])}</a>'
        body.append([name, f"{done} of {all_}", *(str(count) for count in counts)])
    head = ["paper", "figures", *(badge(verdict) for verdict in ORDER)]
    return table_plain(head, body)


def table_plain(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A small table that fits any screen."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    rows = "".join(
        f'<tr><th scope="row">{cells[0]}</th>{"".join(f"<td>{cell}</td>" for cell in cells[1:])}</tr>'
        for cells in body
    )
    return (
        '<div class="site-scroll" role="region" aria-label="verdicts by paper" tabindex="0">'
        f'<table class="table site-summary"><thead><tr>{columns}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def verdict_table(root: Path, paper: str, link: Link) -> str:
    """Every claim of one paper: what it says, what was found, the control, the verdict, cost and command."""
    results = verdicts.load_results(root)
    rows = [row for row in verdicts.rows(root) if row.claim.paper == paper]
    if not rows:
        raise KeyError(f"no claims of a paper {paper!r}; there are {', '.join(PAPERS)}")
    head = ["claim, and how to run it", "verdict", "paper", "here", "control", "cost"]
    body = [_claim_cells(row, results.get(row.claim.notebook), link) for row in rows]
    return table(head, body, "claims", [row.claim.id for row in rows], f"claims of {_authors(paper)}")


def _claim_cells(row: Row, result: Mapping[str, Any] | None, link: Link) -> list[str]:
    claim, address = row.claim, link(row.claim.notebook)
    figures = ", ".join(claim.figures)
    where = f"{'Figure' if figures[0].isdigit() else 'Experiment:'} {html.escape(figures)}"
    where = f'<a href="{address}">{where}</a>' if address else where
    statement = f'<span class="site-where">{where}</span> {html.escape(claim.statement)}'
    stored = _stored(claim, result)
    rules = "".join(f"<li>{_rule(rule, stored)}</li>" for rule in claim.rules)
    decided = f'<details><summary>how it is decided</summary><ul class="site-rules">{rules}</ul></details>'
    older = ""
    if row.stale:
        older = f'<span class="site-stale">older code: {html.escape(_short(row.stale))}</span>'
    seeds = (
        f' <span class="site-seeds">{row.seeds} seed{"s" if row.seeds > 1 else ""}</span>'
        if row.seeds
        else ""
    )
    cost = "–" if row.seconds is None else f"{duration(row.seconds)}, {row.peak_memory_mb:.0f} MB"
    return [
        f"{statement}{decided}<code>{html.escape(row.command)}</code>",
        badge(row.verdict) + older,
        html.escape(claim.expected),
        html.escape(row.numbers) + seeds,
        html.escape(row.control),
        cost,
    ]


def _stored(claim: Claim, result: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if result is None:
        return {}
    return next((c["measured"] for c in result["claims"] if c["id"] == claim.id), {})


def _rule(rule: Rule, measured: Mapping[str, Any]) -> str:
    sign = "≥" if rule.kind == "at_least" else "≤"
    role = "guard, " if rule.guard else ""
    found = f"; found {number(measured[rule.metric])}" if rule.metric in measured else ""
    bound = f"{role}reproduced at {sign} {rule.reproduced:g}, partly at {sign} {rule.partly:g}{found}"
    return f"<code>{rule.metric}</code>: {html.escape(rule.meaning)} ({html.escape(bound)})"


def _short(reasons: Sequence[str]) -> str:
    names = [reason.removeprefix("reconlib.") for reason in reasons]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def figure_table(root: Path, link: Link) -> str:
    """Every figure or experiment of the papers, and whether its page exists."""
    rows = verdicts.rows(root)
    body = []
    for figure in catalogue.FIGURES:
        judged = [r for r in rows if r.claim.paper == figure.paper and figure.number in r.claim.figures]
        shown = " ".join(badge(v) for v in dict.fromkeys(r.verdict for r in judged)) or badge(NOT_RUN)
        address = link(figure.notebook)
        name = f"<code>{figure.notebook}</code>"
        page = f'<a href="{address}">{name}</a>' if address else name
        first = f"{_authors(figure.paper)} {html.escape(figure.number)}"
        body.append([first, html.escape(figure.title), shown, page])
    return table(["figure", "what it shows", "verdicts", "notebook"], body, "figures")


def _authors(paper: str) -> str:
    return PAPERS[paper].split(" et al.")[0]


def _older(changed: provenance.Stale | None) -> str:
    """What has changed since a result was made, or nothing."""
    if changed is None:
        return ""
    reasons = (*changed.modules, *(["notebook"] if changed.notebook_changed else []))
    return f'<span class="site-stale">older code: {html.escape(_short(reasons))}</span>'


def execution_table(root: Path, link: Link) -> str:
    """Time, memory, profile, date and code of every committed run."""
    current = provenance.module_hashes()
    body = []
    for name, result in verdicts.load_results(root).items():
        origin, address = result["provenance"], link(name)
        state = _older(provenance.staleness(result, root, current)) or "current"
        hardware = origin["hardware"]
        body.append([
            f'<a href="{address}">{name}</a>' if address else name,
            result["profile"],
            duration(result["seconds"]),
            f"{result['peak_memory_mb']:.0f} MB",
            origin["date"][:10],
            f"<code>{provenance.combined_hash(origin['modules'])[:12]}</code>",
            state,
            f"{html.escape(hardware['processor'])}, {origin['threads']} thread(s)"
            + (f", {html.escape(hardware['gpu'])}" if hardware["gpu"] else ""),
        ])  # fmt: skip
    head = ["notebook", "profile", "time", "memory", "date", "code", "state", "machine"]
    return table(head, body, "executions")


def page_head(root: Path, notebook: str, verdict_page: str, downloads: Mapping[str, str]) -> str:
    """What stands under a figure page's title: verdicts, cost, date, files to take away, and its age."""
    result = verdicts.load_results(root).get(notebook)
    claims = [row for row in verdicts.rows(root) if row.claim.notebook == notebook]
    items = "".join(
        f'<li>{badge(row.verdict)} <a href="{verdict_page}#{row.claim.id}">'
        f"{html.escape(row.claim.statement)}</a>{_tried(root, row)}</li>"
        for row in claims
    )
    verdict_list = f'<ul class="site-verdicts">{items}</ul>' if items else ""
    links = " · ".join(f'<a href="{address}">{html.escape(name)}</a>' for name, address in downloads.items())
    facts, older = "", ""
    if result is not None:
        facts = (
            f"Profile {result['profile']}, {duration(result['seconds'])}, {result['peak_memory_mb']:.0f} MB, "
            f"{result['provenance']['date'][:10]}. "
        )
        changed = provenance.staleness(result, root)
        if changed is not None:
            again = f"<code>{html.escape(changed.command)}</code> makes it again."
            older = f'<p class="site-facts">{_older(changed)}; {again}</p>'
    line = f'<p class="site-facts">{facts}Take it with you: {links}</p>'
    return f'<div class="site-head">{verdict_list}{line}{older}</div>'


def _tried(root: Path, row: Row) -> str:
    """What a claim that is not reproduced came to when more effort was spent, and where that is told."""
    harder = verdicts.load_results(root).get(TRIED)
    if row.verdict == VERDICTS[-1] or harder is None or row.claim.notebook == TRIED:
        return ""
    ways = {
        name.removeprefix(f"{row.claim.id}: "): measured
        for name, measured in harder["metrics"].items()
        if name.startswith(f"{row.claim.id}: ")
    }
    if not ways:
        return ""
    what = html.escape(next(iter(ways.values()))["unit"])
    told = "; ".join(f"{html.escape(way)} {measured['mean']:.2f}" for way, measured in ways.items())
    return f'<div class="site-facts"><a href="{TRIED}.html">What else was tried</a> ({what}): {told}.</div>'


def rerun(notebook: str, parameters: Sequence[tuple[str, str, str, str]]) -> str:
    """How to run a notebook again: commands, and its parameters as (name, type, default, meaning)."""
    example = next((p for p in parameters if p[0] == "seed"), None)
    other = f" -p {example[0]} 1 out.ipynb" if example else ""
    commands = [f"make figure FIG={notebook} PROFILE={KEPT}", f"papermill notebooks/{notebook}.py{other}"]
    body = [
        [f"<code>{n}</code>", t, f"<code>{html.escape(d)}</code>", html.escape(m)]
        for n, t, d, m in parameters
    ]
    listing = table(["parameter", "type", "default", "meaning"], body, "parameters") if body else ""
    text = html.escape("\n".join(commands))
    return (
        '<div class="highlight-sh notranslate"><div class="highlight">'
        f'<pre tabindex="0">{text}</pre></div></div>{listing}'
    )
