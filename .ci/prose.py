"""Bring the prose of text notebooks into their executed twins, whose outputs stay as they were.

Only text moves, and only from `notebooks/` to `book/`: when the code differs, the notebook has to run again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

from reconlib.files import atomic_path
from reconlib.text_notebooks import read_text_notebook, twin_path


def code(notebook: nbformat.NotebookNode) -> list[str]:
    return [c.source.rstrip() for c in notebook.cells if c.cell_type == "code" and not injected(c)]


def injected(cell: nbformat.NotebookNode) -> bool:
    return "injected-parameters" in cell.metadata.get("tags", [])


def merged(source: nbformat.NotebookNode, twin: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The twin with the cells of `source`, each code cell with the outputs of the run."""
    executed = [c for c in twin.cells if c.cell_type == "code"]
    cells = []
    for cell in source.cells:
        if cell.cell_type == "code":
            ran = executed.pop(0)
            ran.metadata["tags"] = cell.metadata.get("tags", [])
            cells.append(ran)
            while executed and injected(executed[0]):
                cells.append(executed.pop(0))
        else:
            cell.metadata.setdefault("tags", [])
            cells.append(cell)
    twin.cells = cells
    return twin


def main() -> int:
    differ = 0
    for path in sorted(Path("notebooks").glob("*.py")):
        output = twin_path(path)
        if output is None or not output.exists():
            continue
        source, twin = read_text_notebook(path), nbformat.read(output, as_version=4)
        if code(source) != code(twin):
            differ += 1
            print(f"{path}: the code changed; run it again: papermill {path}", file=sys.stderr)
            continue
        before = nbformat.writes(twin)
        after = nbformat.writes(merged(source, twin))
        if after != before:
            with atomic_path(output) as temporary:
                temporary.write_text(after + "\n", encoding="utf-8")
            print(f"{output.relative_to(Path.cwd())}: text brought up to date")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
