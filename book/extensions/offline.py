"""Sphinx extension: pages that load nothing they do not need, keep the console empty, and can be heard.

- sphinx-thebe, which Jupyter Book always loads, writes the same `const` with an address outside the site into
  each page twice: an error on every console, and the only external script address in the pages.
- The theme preloads fonts in a way that a page opened from a file cannot use, and warns about it.
- Theme and toggle buttons report what they do with console.log.
- Some of the theme's markup has names or roles that a screen reader cannot use.
- Long names in code break anywhere on a narrow screen rather than between their words.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

CONFIG = re.compile(r'<script type="text/x-thebe-config">.*?</script>', re.DOTALL)
PRELOAD = re.compile(r'<link rel="preload" as="font"[^>]*>\n?')
# What is written → what a screen reader can use.
MARKUP = (
    (re.compile(r'(<button class="[^"]*search-button-field[^"]*"[^>]*?) aria-label="Search"'), r"\1"),
    (
        re.compile(r'<div class="bd-sidebar-primary bd-sidebar'),
        '<div role="complementary" aria-label="Site" class="bd-sidebar-primary bd-sidebar',
    ),
    (re.compile(r'<div class="pst-scrollable-table-container"'), r'\g<0> tabindex="0"'),
    (re.compile(r'<summary aria-label="Toggle hidden content"'), "<summary"),
    (re.compile(r'<div role="list" class="citation-list"'), '<div class="citation-list"'),
    (re.compile(r' role="doc-biblioentry"'), ""),
)
LONG_NAME = re.compile(r'(?<=<span class="pre">)[\w./]{24,}(?=</span>)')
TALKATIVE = ("_static/scripts/pydata-sphinx-theme.js", "_static/togglebutton.js")


def without_thebe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Drop thebe's script, style and settings from a page about to be written."""

    def is_thebe(file: Any) -> bool:
        body = getattr(file, "attributes", {}).get("body") or ""
        return "thebe" in str(getattr(file, "filename", "") or file) or "THEBE_JS_URL" in body

    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if not is_thebe(file)]
    if "body" in context:
        context["body"] = CONFIG.sub("", context["body"])
    # Otherwise the theme reports an invalid mode on a reader's first visit.
    context["default_mode"] = "auto"


def between_words(html: str) -> str:
    """Offer breaks inside long names: taken only where needed, and no part of what a reader copies."""
    return LONG_NAME.sub(lambda name: re.sub(r"(?<=[_./])(?=\w)", "<wbr>", name[0]), html)


def mend(app: Sphinx, exception: Exception | None) -> None:
    """Mend the written pages and take the reports out of the theme's scripts."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for page in out.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        mended = PRELOAD.sub("", text).replace('console.log("[PST]', 'void ("[PST]')
        for pattern, better in MARKUP:
            mended = pattern.sub(better, mended)
        mended = between_words(mended)
        if mended != text:
            page.write_text(mended, encoding="utf-8")
    for name in TALKATIVE:
        script = out / name
        if script.is_file():
            text = script.read_text(encoding="utf-8")
            script.write_text(text.replace("console.log(", "void ("), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    # After the theme's own handlers, which still add files.
    app.connect("html-page-context", without_thebe, priority=900)
    app.connect("build-finished", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
