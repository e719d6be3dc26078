"""All verdicts together: one row per claim of the papers, run or not, and how many figures are covered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconlib import catalogue, provenance
from reconlib.claims import NOT_RUN, Claim
from reconlib.text_notebooks import KEPT

COLOURS = {  # distinct in grey and for the colour-blind, and dark enough under white text
    "reproduced": "#00694f",
    "partly": "#8a5a00",
    "not reproduced": "#a3365f",
    NOT_RUN: "#5a5a5a",
}

CONTROLS = {  # whose candidates, judged against which images
    "attack": ("the attack", "training images"),
    "held_out": ("the attack", "images never seen"),
    "differences": ("no search: differences of neurons", "training images"),
    "differences_held_out": ("no search: differences of neurons", "images never seen"),
    "first_layer": ("no attack: rows of the first layer", "training images"),
    "untrained": ("an attack on the untrained network", "training images"),
    "other_weights": ("an attack on a network trained on other images", "training images"),
    "noise": ("noise, with the mean image added", "training images"),
}

CONTROLS_INTRODUCTION = (
    "The same judge on the attack, on differences of neurons (a second attack, which needs no search), and "
    "where nothing can be found:"
)


@dataclass(frozen=True)
class Row:
    """One claim with what was found."""

    claim: Claim
    verdict: str
    numbers: str  # our values with their range
    control: str  # the guard's value, or a dash
    seeds: int
    seconds: float | None
    peak_memory_mb: float | None
    stale: tuple[str, ...]  # what has changed since: modules, "notebook", "rule"
    command: str


def load_results(root: Path) -> dict[str, dict[str, Any]]:
    """The committed results, by notebook."""
    files = sorted((root / "book" / "results").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def rows(root: Path) -> list[Row]:
    """A row for every claim of the catalogue, in its order."""
    results, current = load_results(root), provenance.module_hashes()
    return [_row(claim, results.get(claim.notebook), root, current) for claim in catalogue.CLAIMS.values()]


def _row(claim: Claim, result: Mapping[str, Any] | None, root: Path, current: Mapping[str, str]) -> Row:
    command = f"make figure FIG={claim.notebook} PROFILE={KEPT}"
    stored = next((c for c in result["claims"] if c["id"] == claim.id), None) if result else None
    if result is None or stored is None or stored["verdict"] == NOT_RUN:
        return Row(claim, NOT_RUN, "–", "–", 0, None, None, (), command)
    changed = provenance.staleness(result, root, current)
    reasons = [*changed.modules, *(["notebook"] if changed.notebook_changed else [])] if changed else []
    if stored["rules"] != claim.to_dict()["rules"]:
        reasons.append("rule")
    texts = {rule.metric: f"{rule.metric} {number(stored['measured'][rule.metric])}" for rule in claim.rules}
    return Row(
        claim=claim,
        verdict=stored["verdict"],
        numbers="; ".join(texts[rule.metric] for rule in claim.rules if not rule.guard),
        control="; ".join(texts[rule.metric] for rule in claim.rules if rule.guard) or "–",
        seeds=stored["seeds"],
        seconds=result["seconds"],
        peak_memory_mb=result["peak_memory_mb"],
        stale=tuple(reasons),
        command=command,
    )


def number(measured: Mapping[str, Any]) -> str:
    """A measured value as text: mean and range over seeds, or the one value."""
    if len(measured["values"]) == 1:
        return f"{measured['mean']:.3g}"
    return f"{measured['mean']:.3g} ({measured['min']:.3g} to {measured['max']:.3g})"


def coverage(root: Path) -> dict[str, tuple[int, int]]:
    """Figures with at least one judged claim, and all figures, by paper."""
    judged = {(r.claim.paper, f) for r in rows(root) if r.verdict != NOT_RUN for f in r.claim.figures}
    papers = dict.fromkeys(figure.paper for figure in catalogue.FIGURES)
    numbers = {p: [f.number for f in catalogue.FIGURES if f.paper == p] for p in papers}
    return {p: (sum((p, n) in judged for n in numbers[p]), len(numbers[p])) for p in papers}


def badge(verdict: str) -> str:
    """A verdict as a small coloured HTML label; the word stays, so colour carries nothing alone."""
    style = (
        f"background:{COLOURS[verdict]};color:#fff;padding:.1em .55em;border-radius:.6em;white-space:nowrap"
    )
    return f'<span class="verdict" style="{style}">{verdict}</span>'


def claims_markdown(result: Mapping[str, Any]) -> str:
    """The claims of one notebook as a Markdown table, for the end of its page."""
    lines = ["| verdict | claim | paper | here | seeds |", "|---|---|---|---|---|"]
    for claim in result["claims"]:
        found = "; ".join(f"{name} {number(value)}" for name, value in claim["measured"].items()) or "–"
        cells = [badge(claim["verdict"]), claim["statement"], claim["expected"], found, str(claim["seeds"])]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    controls = controls_markdown(result)
    if controls:
        lines += ["", CONTROLS_INTRODUCTION, "", controls]
    return "\n".join(lines)


def controls_markdown(result: Mapping[str, Any]) -> str:
    """What the judge says of both attacks and of every control, for the experiments that have all of them."""
    lines = ["| candidates of | judged against | images | above 0.4 | best SSIM |", "|---|---|---|---|---|"]
    for name, found in result["controls"].items():
        if "other_weights" in found.get("controls", {}):
            for key, judged in {"attack": found["attack"], **found["controls"]}.items():
                candidates, against = CONTROLS.get(key, (key, "training images"))
                cells = [f"{candidates} ({name})" if key == "attack" else candidates, against]
                numbers = [str(judged["n"]), str(judged["good"]), f"{judged['best']:.2f}"]
                lines.append("| " + " | ".join(cells + numbers) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def provenance_markdown(result: Mapping[str, Any]) -> str:
    """Where one notebook's numbers came from, as a line or two of Markdown."""
    origin, hardware = result["provenance"], result["provenance"]["hardware"]
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    seeds = result["parameters"].get("seed", result["parameters"].get("seeds", "–"))
    code = provenance.combined_hash(origin["modules"])[:12]
    notebook, lock = str(origin["notebook"])[:12], str(origin["lock"])[:12]
    return (
        f"Profile `{result['profile']}`, {origin['date'][:10]}, {result['seconds']:.0f} s of work "
        f"({result['wall_seconds']:.0f} s in this run), {result['peak_memory_mb']:.0f} MB at most, on "
        f"{hardware['processor']} ({hardware['cores']} cores, {hardware['memory_gb']:g} GB"
        f"{', ' + hardware['gpu'] if hardware['gpu'] else ''}), {origin['threads']} thread(s), seed {seeds}. "
        f"Code `{code}`, notebook `{notebook}`, lock `{lock}`; {versions}."
    )
