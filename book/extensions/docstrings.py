"""Sphinx extension: docstrings as they are written in this library, read by Sphinx.

They are plain text: `code` in single backticks, lists without blank lines around them, examples without a
mark, and signs such as | and * that mean nothing special.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import textwrap
import tokenize
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx

_ITEM = re.compile(r"^(-|\d+\.) ")
_CODE = re.compile(r"(`+[^`]*`+)")


def plain_text(lines: list[str]) -> list[str]:
    """The same text in reStructuredText."""
    text: list[str] = []
    for blank, block in groupby(lines, key=lambda line: not line.strip()):
        part = list(block)
        if blank:
            text.append("")
        elif _is_example(part):
            text += ["::", "", *(f"    {line}" for line in part)]
        else:
            text += _prose(part)
    return text


def _is_example(block: list[str]) -> bool:
    """Python, or what stands for it with a few dots: prose is never indented outside of a list."""
    if any(_ITEM.match(line) for line in block):
        return False
    if any(line.startswith("    ") for line in block):
        return True
    try:
        body = ast.parse("\n".join(block)).body
    except SyntaxError:
        return False
    return any(isinstance(node, (ast.Assign, ast.With, ast.Import, ast.ImportFrom)) for node in body)


def _prose(block: list[str]) -> list[str]:
    text: list[str] = []
    inside = False
    for line in block:
        item = bool(_ITEM.match(line))
        if text and ((item and not inside) or (inside and not item and not line.startswith(" "))):
            text.append("")
        inside = item or (inside and line.startswith(" "))
        text.append(_escape(line))
    return text


def _escape(line: str) -> str:
    parts = _CODE.split(line)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"[*|\\]|_(?=\W|$)", lambda sign: "\\" + sign[0], parts[i])
    for i in range(1, len(parts), 2):
        if parts[i].count("`") == 2:
            parts[i] = f"`{parts[i]}`"
    return "".join(parts)


def fields(cls: type) -> list[str]:
    """The fields of a dataclass with type, default and the comment beside each in its source, as a list."""
    source = inspect.getsource(cls)
    comments = {
        token.start[0]: token.string.lstrip("#: ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    text = [""]
    for node in ast.parse(textwrap.dedent(source)).body[0].body:
        if isinstance(node, ast.AnnAssign):
            kind = ast.unparse(node.annotation)
            default = f" = {ast.unparse(node.value)}" if node.value is not None else ""
            comment = comments.get(node.end_lineno) or comments.get(node.lineno, "")
            said = f": {_escape(comment)}" if comment else ""
            text.append(f"- ``{ast.unparse(node.target)}: {kind}{default}``{said}")
    return [*text, ""]


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = plain_text(lines)
    if what == "class" and dataclasses.is_dataclass(obj):
        lines += fields(obj)


def signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, given: str | None, result: str | None
) -> tuple[str | None, str | None] | None:
    """None where the list of fields says the same, with types and words."""
    return ("", None) if what == "class" and dataclasses.is_dataclass(obj) else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
