"""The book, built once for all tests: in a copy, without a network, with warnings as errors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reconlib.files import locked

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY, COMMIT = "someone/reconlib", "0123456789abcdef0123456789abcdef01234567"
# Any attempt to open a connection ends the build.
NO_NETWORK = """
import socket, sys
def refuse(*args, **options):
    raise OSError("the build tried to reach the network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
sys.argv[0] = "jupyter-book"
from jupyter_book.cli.main import main
main()
"""
# What the book is made of.
PARTS = ("book", "notebooks", "benchmarks", "reconlib")
FILES = ("_config.yml", "_toc.yml", "pyproject.toml", "requirements.lock")


class References(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.without_alternative: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attributes}
        self.anchors.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "index", "search", "next", "prev"):
            self.loads.append(given.get("href", ""))
        if "src" in given:
            self.loads.append(given["src"])
        self.loads += re.findall(r"url\(([^)]+)\)", given.get("style", ""))
        # Without a description Sphinx takes the name of the file.
        if tag == "img" and (not given.get("alt") or given["alt"].endswith((".png", ".svg", ".jpg"))):
            self.without_alternative.append(given.get("src", ""))


def build(folder: Path, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """`jupyter-book build` with no network, as a publishing workflow would see it."""
    command = [sys.executable, "-c", NO_NETWORK, "build", *arguments, "-W", "-n", "--keep-going"]
    named = {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_SHA": COMMIT, "GITHUB_REF_NAME": "main"}
    return subprocess.run(
        command, cwd=folder, env=os.environ | named, capture_output=True, text=True, timeout=timeout
    )


def copy_project(target: Path) -> None:
    """The parts of this repository that the book is made of."""
    ignore = shutil.ignore_patterns("_build", "_runs", "*.failed.ipynb", "*.running.ipynb", "__pycache__")
    for part in PARTS:
        shutil.copytree(ROOT / part, target / part, symlinks=True, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, target / name)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The pages of `jupyter-book build book`; parallel workers share one build."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "built-book"
    with locked(folder.with_suffix(".lock"), timeout=600):
        done, failed = folder / "done", folder / "failed"
        if not done.exists() and not failed.exists():
            folder.mkdir()
            copy_project(folder / "project")
            result = build(folder / "project", "book")
            (done if result.returncode == 0 else failed).write_text(result.stdout + result.stderr)
        assert done.exists(), failed.read_text()[-4000:]
    return folder / "project/book/_build/html"


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, References]:
    """Every page, read."""
    # Fragments that the theme includes lie in _static; they are no pages.
    found = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    return {path: References(path.read_text(encoding="utf-8")) for path in found}
