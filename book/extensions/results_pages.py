"""Sphinx extension: directives that write verdicts, coverage and cost from the committed results.

`verdict-summary`, `coverage`, `verdict-table` (with a paper's letter), `figure-table`, `execution-table`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from reconlib import site


def project(app: Sphinx) -> Path:
    """The folder that holds `book/`, `notebooks/` and the library."""
    return Path(app.srcdir).resolve().parent


def page_link(app: Sphinx, docname: str) -> site.Link:
    """From a notebook's name to its page, as seen from `docname`; None where the notebook was never run."""

    def link(notebook: str) -> str | None:
        target = f"figures/{notebook}"
        if not (Path(app.srcdir) / f"{target}.ipynb").is_file():
            return None
        return app.builder.get_relative_uri(docname, target)

    return link


class Generated(SphinxDirective):
    """One piece of `reconlib.site`, written anew in every build."""

    optional_arguments = 1
    make: ClassVar[Callable[[Sphinx, str, str], str]]

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        text = type(self).make(self.env.app, self.env.docname, "".join(self.arguments))
        return [nodes.raw("", text, format="html")]


def _directive(make: Callable[[Sphinx, str, str], str]) -> type[Directive]:
    return type("Generated", (Generated,), {"make": staticmethod(make)})


DIRECTIVES = {
    "coverage": lambda app, doc, _: site.coverage_line(project(app)),
    "verdict-summary": lambda app, doc, _: site.summary(
        project(app), app.builder.get_relative_uri(doc, "verdicts")
    ),
    "verdict-table": lambda app, doc, paper: site.verdict_table(project(app), paper, page_link(app, doc)),
    "figure-table": lambda app, doc, _: site.figure_table(project(app), page_link(app, doc)),
    "execution-table": lambda app, doc, _: site.execution_table(project(app), page_link(app, doc)),
}


def setup(app: Sphinx) -> dict[str, bool]:
    for name, make in DIRECTIVES.items():
        app.add_directive(name, _directive(make))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
