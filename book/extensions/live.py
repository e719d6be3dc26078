"""Sphinx extension: the directive `live` runs its content while the book is built and shows what comes out.

Code in the text is then code that works: an error in it ends the build. The blocks of one page share their
names; `project` is the repository's folder. With `:hide:` only the output is shown.
"""

from __future__ import annotations

import ast
import contextlib
import io
import warnings
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from results_pages import project
from sphinx.util.docutils import SphinxDirective


def run(source: str, names: dict[str, Any], where: str) -> tuple[str, Any]:
    """Execute `source` in `names`: what it printed, and the value of its last line if it is an expression."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(action="error"):
        exec(compile(tree, where, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    return printed.getvalue(), value


class Live(SphinxDirective):
    """A block of Python that is shown, executed, and followed by its output."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"hide": directives.flag}

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        names = self.env.temp_data.setdefault("live", {"project": project(self.env.app)})
        source = "\n".join(self.content)
        printed, value = run(source, names, f"{self.env.docname}:{self.lineno}")
        shown: list[nodes.Node] = []
        if "hide" not in self.options:
            shown.append(nodes.literal_block(source, source, language="python"))
        if printed:
            shown.append(nodes.literal_block(printed, printed, language="text", classes=["live-output"]))
        if value is not None:
            rich = getattr(value, "_repr_html_", None)
            text = rich() if rich else str(value)
            if rich:
                shown.append(nodes.raw("", f'<div class="live-shown">{text}</div>', format="html"))
            else:
                shown.append(nodes.literal_block(text, text, language="text", classes=["live-output"]))
        return shown


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("live", Live)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
