"""Sphinx extension: buttons that need the address of the repository appear where that address is known.

In a GitHub workflow it is in the environment; elsewhere it is git's `origin`. Without either, the pages have
no repository, issue or Colab button rather than one that leads nowhere.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from results_pages import project
from sphinx.application import Sphinx
from sphinx.config import Config


def repository(root: Path) -> str | None:
    """owner/name on GitHub, or None."""
    named = os.environ.get("GITHUB_REPOSITORY")
    if named:
        return named
    found = subprocess.run(
        ["git", "-C", str(root), "remote", "get-url", "origin"], capture_output=True, text=True
    )
    match = re.search(r"github\.com[:/]([\w.-]+/[\w.-]+?)(\.git)?$", found.stdout.strip())
    return match[1] if match else None


def configure(app: Sphinx, config: Config) -> None:
    name = repository(project(app))
    if name is None:
        return
    config.html_theme_options.update(
        repository_url=f"https://github.com/{name}",
        repository_branch=os.environ.get("GITHUB_REF_NAME", "main"),
        path_to_docs="book",
        use_repository_button=True,
        use_issues_button=True,
    )
    config.reconlib_repository = name


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("reconlib_repository", "", "html")
    app.connect("config-inited", configure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
