"""Sphinx extension: the frame of every figure's page, so that notebooks need none of it.

Beneath the title: the verdicts of its claims, what it cost, files to take away. Code lies behind buttons.
At the end: how to run it again, with its parameters, and where its numbers came from.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from results_pages import project
from sphinx.application import Sphinx
from sphinx.config import Config

from reconlib import catalogue, colab, site, verdicts

FOLDER = "downloads"
SECTION = "run-it-again"


def data_files(result: dict[str, Any]) -> dict[str, str]:
    """The data behind a page as CSV: its tables by name, and the SSIM of every image under every control."""
    files = {
        _slug(name): _csv(list(table), zip(*table.values(), strict=True))
        for name, table in result["tables"].items()
    }
    rows = [
        (experiment, series, image, score)
        for experiment, report in result["controls"].items()
        for series, judged in {"attack": report.get("attack", {}), **report.get("controls", {})}.items()
        for image, score in enumerate(judged.get("ssim", ()))
    ]
    if rows:
        files["ssim"] = _csv(["experiment", "set", "image", "ssim"], rows)
    return files


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "table"


def _csv(head: list[str], rows: Iterator[tuple[Any, ...]] | list[tuple[Any, ...]] | zip) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def downloads(app: Sphinx, notebook: str) -> dict[str, str]:
    """What can be taken from a page: shown name → address as seen from `figures/`."""
    base, root = f"../{FOLDER}/{notebook}", project(app)
    found = {"notebook": f"{base}.ipynb", "as text": f"{base}.py"}
    result = root / "book/results" / f"{notebook}.json"
    if result.is_file():
        found["results (JSON)"] = f"{base}.json"
        for name in data_files(json.loads(result.read_text(encoding="utf-8"))):
            found[f"{name} (CSV)"] = f"{base}-{name}.csv"
    if app.config.reconlib_repository:
        found["open in Colab"] = colab.address(app.config.reconlib_repository, notebook)
    return found


def frame(app: Sphinx, doctree: nodes.document) -> None:
    """Put head and foot around the executed notebook that was just read."""
    docname = app.env.docname
    if not docname.startswith("figures/"):
        return
    notebook, root = docname.removeprefix("figures/"), project(app)
    page = next(iter(doctree.findall(nodes.section)), None)
    if page is None:
        return
    app.env.note_reread()
    for image in doctree.findall(nodes.image):
        image.setdefault("alt", "Picture drawn by the code above")
    if catalogue.claims_of(notebook):
        fold(doctree, app.config)
    head = site.page_head(root, notebook, "../verdicts.html", downloads(app, notebook))
    page.insert(1, nodes.raw("", head, format="html"))
    foot = nodes.section(ids=[SECTION], names=[SECTION])
    foot += nodes.title("", "Run it again")
    foot += nodes.raw("", site.rerun(notebook, _parameters(root, notebook)), format="html")
    result = verdicts.load_results(root).get(notebook)
    if result is not None:
        sentence = verdicts.provenance_markdown(result)
        # Many notebooks end with this sentence themselves.
        if sentence.split("Code `")[1][:12] not in doctree.astext():
            foot += _line(sentence)
        foot += _line("Data: " + "; ".join(
            f"`{name}` `{checksum[:12]}`" for name, checksum in result["provenance"]["data"].items()
        ) + ".") if result["provenance"]["data"] else nodes.comment()  # fmt: skip
    page += foot


def fold(doctree: nodes.document, config: Config) -> None:
    """Put all code of a figure behind buttons; pages without a claim, as the quick start, may show some."""
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and not cell.get("hide_mode"):
            cell["hide_mode"] = "input"
            cell["prompt_show"], cell["prompt_hide"] = config.nb_code_prompt_show, config.nb_code_prompt_hide


def _line(text: str) -> nodes.paragraph:
    """A paragraph in which `marked` words are code."""
    paragraph = nodes.paragraph(classes=["site-provenance"])
    for i, part in enumerate(text.split("`")):
        paragraph += nodes.literal("", part) if i % 2 else nodes.Text(part)
    return paragraph


def _parameters(root: Path, notebook: str) -> list[tuple[str, str, str, str]]:
    from papermill import inspect_notebook

    found = inspect_notebook(str(root / "notebooks" / f"{notebook}.py")).values()
    return [(p["name"], p["inferred_type_name"], p["default"], p["help"]) for p in found]


def write_downloads(app: Sphinx, exception: Exception | None) -> None:
    """Copy what the pages offer beside them."""
    if exception is not None or app.builder.format != "html":
        return
    root, target = project(app), Path(app.outdir) / FOLDER
    target.mkdir(exist_ok=True)
    for docname in sorted(app.env.found_docs):
        if not docname.startswith("figures/"):
            continue
        notebook = docname.removeprefix("figures/")
        shutil.copyfile(root / "book" / f"{docname}.ipynb", target / f"{notebook}.ipynb")
        shutil.copyfile(root / "notebooks" / f"{notebook}.py", target / f"{notebook}.py")
        result = root / "book/results" / f"{notebook}.json"
        if result.is_file():
            shutil.copyfile(result, target / result.name)
            for name, text in data_files(json.loads(result.read_text(encoding="utf-8"))).items():
                (target / f"{notebook}-{name}.csv").write_text(text, encoding="utf-8")


def configure(app: Sphinx, config: Config) -> None:
    """Read Markdown that a notebook prints like the text around it: plain CommonMark has no tables."""
    config.nb_render_markdown_format = "myst"


def setup(app: Sphinx) -> dict[str, bool]:
    # Before MyST-NB reads its settings.
    app.connect("config-inited", configure, priority=100)
    # Before Sphinx collects headings for the table of contents.
    app.connect("doctree-read", frame, priority=300)
    app.connect("build-finished", write_downloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
