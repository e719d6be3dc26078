"""Notebooks kept as text: how one is read, where its executed twin lies, which parameters it takes."""

from __future__ import annotations

import ast
import difflib
import hashlib
from pathlib import Path
from typing import Any

PROFILES = ("smoke", "cpu", "paper")
KEPT = "cpu"  # the profile whose executed notebook is committed and shown in the book

_KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


class TextNotebookError(ValueError):
    """A text notebook was called in a way that it does not allow."""


def read_text_notebook(path: str | Path) -> Any:
    """The notebook in a percent-format `.py`, with a kernel and with ids that stay the same between runs."""
    import jupytext

    notebook = jupytext.read(path)
    notebook.metadata.setdefault("kernelspec", _KERNEL)
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"{index:02d}-{hashlib.sha256(cell.source.encode()).hexdigest()[:8]}"
    return notebook


def twin_path(source: str | Path) -> Path | None:
    """The executed notebook that jupytext's configuration pairs with `source`; None if it is not paired."""
    from jupytext.config import load_jupytext_config
    from jupytext.formats import long_form_multiple_formats
    from jupytext.paired_paths import paired_paths

    source = str(Path(source).resolve())
    config = load_jupytext_config(source)
    formats = config.default_formats(source) if config else None
    if not formats:
        return None
    pairs = paired_paths(source, {"extension": Path(source).suffix}, long_form_multiple_formats(formats))
    return next((Path(path) for path, _ in pairs if path.endswith(".ipynb")), None)


def default_output(source: str | Path, profile: str = KEPT) -> Path:
    """Where a run goes when nobody says: the paired notebook, or a place of its own for other profiles."""
    twin = twin_path(source)
    if twin is None:
        return Path(source).with_suffix(".ipynb")
    return twin if profile == KEPT else twin.parent.parent / "_runs" / str(profile) / twin.name


def typed(parameter: Any) -> Any:
    """A parameter of papermill's with the type of its default where the notebook states none."""
    if parameter.inferred_type_name != "None":
        return parameter
    try:
        default = ast.literal_eval(parameter.default)
    except (ValueError, SyntaxError):
        return parameter
    return parameter._replace(inferred_type_name=type(default).__name__)


def check_parameters(name: str, notebook: Any, parameters: dict[str, Any]) -> None:
    """Raise an error that lists what is valid if a parameter or the profile is not one of the notebook's."""
    from papermill.inspection import _infer_parameters

    declared = {parameter.name: parameter for parameter in _infer_parameters(notebook)}
    lines = [
        f"  {p.name}: {p.inferred_type_name} = {p.default}{f'  ({p.help})' if p.help else ''}"
        for p in declared.values()
    ]
    valid = "\n".join(["The parameters are:", *lines]) if lines else "It declares no parameters."
    for given in parameters:
        if given not in declared and not given.startswith("PAPERMILL_"):
            close = difflib.get_close_matches(given, declared, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise TextNotebookError(f"{name} has no parameter {given!r}.{hint} {valid}")
    if "profile" in declared and parameters.get("profile", KEPT) not in PROFILES:
        raise TextNotebookError(
            f"{name} has no profile {parameters['profile']!r}. The profiles are: {', '.join(PROFILES)}"
        )
