"""The book's notebooks for Google Colab: a first cell that installs the library, and no outputs.

`python -m reconlib.colab owner/name commit folder` writes them; it needs nothing but Python itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

BRANCH = "colab"  # the publishing workflow keeps the notebooks there


def address(repository: str, notebook: str) -> str:
    """Where Colab opens a notebook."""
    return f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/{notebook}.ipynb"


def first_cell(repository: str, commit: str) -> str:
    """Installs the library of exactly this commit, at the locked versions, and keeps results beside it."""
    lock = f"https://raw.githubusercontent.com/{repository}/{commit}/requirements.lock"
    source = f"git+https://github.com/{repository}@{commit}"
    return (
        "# Installs what this notebook was made with (minutes); restart the session if Colab asks for it.\n"
        f'%pip install --quiet --constraint {lock} "reconlib @ {source}"\n'
        "%env RECONLIB_RESULTS=results"
    )


def for_colab(notebook: dict[str, Any], repository: str, commit: str) -> dict[str, Any]:
    """An executed notebook without its outputs, with that cell in front."""
    blank: dict[str, Any] = {"outputs": [], "execution_count": None}
    cells = [cell | blank if cell["cell_type"] == "code" else cell for cell in notebook["cells"]]
    first = {"cell_type": "code", "id": "colab", "metadata": {}, "source": first_cell(repository, commit)}
    metadata = {key: value for key, value in notebook["metadata"].items() if key != "papermill"}
    return notebook | {"cells": [first | blank, *cells], "metadata": metadata}


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m reconlib.colab", description=__doc__)
    parser.add_argument("repository", help="owner/name on GitHub")
    parser.add_argument("commit", help="of the library to install")
    parser.add_argument("folder", type=Path, help="where the notebooks go")
    given = parser.parse_args(arguments)
    figures = Path(__file__).resolve().parent.parent / "book" / "figures"
    given.folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(p for p in figures.glob("*.ipynb") if "." not in p.stem):
        notebook = for_colab(json.loads(path.read_text(encoding="utf-8")), given.repository, given.commit)
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        (given.folder / path.name).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
