"""The book builds as written, without a network, without a warning, and its pages need none to be read."""

# ruff: noqa: F401, F811 (fixtures are imported)
from __future__ import annotations

import gzip
import re
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from book_build import ROOT, References, build, pages, site

MEGABYTE = 1_000_000


def toc_files(node: object) -> list[str]:
    if isinstance(node, dict):
        found = [node[key] for key in ("root", "file", "glob") if key in node]
        return found + [f for value in node.values() for f in toc_files(value)]
    return [f for value in node for f in toc_files(value)] if isinstance(node, list) else []


def test_config_and_toc_lie_at_the_root() -> None:
    for name in ("_config.yml", "_toc.yml"):
        assert not (ROOT / name).is_symlink()
        link = ROOT / "book" / name
        assert link.is_symlink()
        assert link.readlink() == Path("..") / name


def test_every_page_of_the_toc_is_built(site: Path) -> None:
    listed = toc_files(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    assert "index" in listed
    named = [name for name in listed if "*" not in name]
    assert [name for name in named if not (site / f"{name}.html").exists()] == []


def test_every_executed_notebook_is_in_the_toc_once_and_has_its_page(site: Path) -> None:
    """By name, or by a pattern that takes a notebook up as soon as it has been run."""
    listed = toc_files(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    twins = [f"figures/{p.stem}" for p in (ROOT / "book/figures").glob("*.ipynb") if "." not in p.stem]
    assert twins
    for twin in twins:
        assert [name for name in listed if fnmatchcase(twin, name)] != [], f"{twin} is not in _toc.yml"
        assert len([name for name in listed if fnmatchcase(twin, name)]) == 1, f"{twin} is there twice"
        assert (site / f"{twin}.html").exists()


def test_the_toc_has_a_place_for_every_notebook_of_the_catalogue() -> None:
    from reconlib.catalogue import FIGURES

    listed = toc_files(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    for notebook in {figure.notebook for figure in FIGURES}:
        assert any(fnmatchcase(f"figures/{notebook}", name) for name in listed), notebook


def test_pages_load_nothing_from_outside(pages: dict[Path, References]) -> None:
    for path, page in pages.items():
        outside = [
            url for url in page.loads if urlsplit(url).scheme not in ("", "data") or url.startswith("//")
        ]
        assert outside == [], path.name
        # Scripts may hold addresses too; the only ones allowed are links that a reader may click.
        text = path.read_text(encoding="utf-8")
        scripts = "".join(re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL))
        assert re.findall(r"https?://[^\s\"'<>]+", scripts) == [], path.name


def test_links_images_and_scripts_resolve(site: Path, pages: dict[Path, References]) -> None:
    for path, page in pages.items():
        for url in page.links + page.loads:
            target = urlsplit(url)
            if target.scheme or url.startswith("//"):
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            assert file.exists(), f"{path.relative_to(site)} refers to {url}"
            if target.fragment and file in pages:
                assert unquote(target.fragment) in pages[file].anchors, f"{path.relative_to(site)}: {url}"


def test_maths_is_local(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    (script,) = re.findall(r'src="(_static/mathjax/[^"?]+)', text)
    assert (site / script).stat().st_size > 1_000_000
    assert (ROOT / "book/static/mathjax/LICENSE").exists()


def test_stored_outputs_are_shown_and_code_is_folded(site: Path) -> None:
    text = (site / "figures/quickstart.html").read_text(encoding="utf-8")
    assert "fashion_mnist_mini/even_vs_odd_classes" in text
    assert re.search(r"_images/[0-9a-f]+\.png", text)
    assert "Show code cell source" in text


def test_every_image_has_an_alternative_text(pages: dict[Path, References]) -> None:
    without = {path.name: page.without_alternative for path, page in pages.items()}
    assert {name: images for name, images in without.items() if images} == {}


def test_pages_are_light(site: Path, pages: dict[Path, References]) -> None:
    """Alone, and with every file they load as a server sends it, compressed."""
    for path, page in pages.items():
        local = {
            (path.parent / unquote(urlsplit(url).path)).resolve() for url in page.loads if url[:5] != "data:"
        }
        own = path.stat().st_size + sum(f.stat().st_size for f in local if "_images" in f.parts)
        assert own < 3 * MEGABYTE, path.name
        sent = sum(len(gzip.compress(f.read_bytes(), 6)) for f in {*local, path} if f.is_file())
        assert sent < 3 * MEGABYTE, path.name


def test_a_broken_reference_fails_the_build(tmp_path: Path) -> None:
    """Otherwise the tests above would pass on a book with holes."""
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    (tmp_path / "_config.yml").write_text("title: t\nexecute: {execute_notebooks: 'off'}\n")
    (tmp_path / "index.md").write_text("# A page\n\n{doc}`nowhere`\n")
    done = build(tmp_path, ".", timeout=120)
    assert done.returncode != 0
    assert "unknown document" in done.stdout + done.stderr
