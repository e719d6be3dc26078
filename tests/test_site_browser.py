"""The site in a real browser: a silent console, formulas, sliders and plots that answer, for everyone."""

# ruff: noqa: F401, F811 (fixtures are imported)
from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from book_build import References, pages, site
from browser import Browser, find_chromium

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
AXE = Path(__file__).with_name("axe") / "axe.min.js.gz"
SEE = "figures/see_it.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM) as running:
        yield running


def until(condition: Callable[[], object], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


ALL = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
# What can differ from the light page on a wide screen.
DARK = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
PHONE = {"type": "rule", "values": ["scrollable-region-focusable", "target-size", "css-orientation-lock"]}


def violations(browser: Browser, rules: dict[str, object]) -> list[str]:
    """What axe finds: contrast, names, roles, alternatives, focus."""
    browser.run(gzip.decompress(AXE.read_bytes()).decode() + ";true")
    return browser.run(
        f"axe.run({{runOnly: {json.dumps(rules)}, resultTypes: ['violations']}}).then(r =>"
        "r.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target} ${n.failureSummary}`)))"
    )


@pytest.mark.parametrize(
    ("width", "dark", "rules"),
    [(1280, False, ALL), (1280, True, DARK), (390, False, PHONE)],
    ids=["light", "dark", "phone"],
)
def test_every_page_opens_silently_fits_and_can_be_used_by_everyone(
    browser: Browser, pages: dict[Path, References], width: int, dark: bool, rules: dict[str, object]
) -> None:
    """A silent console, no request outside, every image shown, no wider than the window, nothing for axe."""
    browser.look(width, 900, dark)
    broken = "[...document.images].filter(i => i.complete && !i.naturalWidth && i.loading !== 'lazy').length"
    for path in pages:
        browser.open(path)
        assert browser.console == [], path.name
        outside = [url for url in browser.requests if urlsplit(url).scheme not in ("file", "data")]
        assert outside == [], path.name
        assert browser.run(broken) == 0, f"{path.name} has images that could not be shown"
        assert browser.run("document.documentElement.scrollWidth") <= width, path.name
        assert violations(browser, rules) == [], path.name


def test_the_console_is_really_listened_to(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.log('hello'); fail()</script><img src='none.png'>")
    browser.open(bad)
    words = " ".join(browser.console)
    assert "hello" in words and "fail is not defined" in words and "ERR_FILE_NOT_FOUND" in words


def test_formulas_are_drawn(browser: Browser, site: Path) -> None:
    browser.look()
    for name in ("index", "how-it-works", "notation"):
        browser.open(site / f"{name}.html")
        written = browser.run("document.querySelectorAll('.math').length")
        drawn = browser.run(
            "[...document.querySelectorAll('.math')].filter(m => { const s = m.querySelector('svg');"
            "return s && s.getBoundingClientRect().width > 3; }).length"
        )
        assert written and drawn == written, name
        assert browser.run("document.querySelectorAll('mjx-merror, [data-mjx-error]').length") == 0


# --- what answers a reader


def test_the_slider_uncovers_the_images(browser: Browser, site: Path) -> None:
    browser.look()
    browser.open(site / SEE)
    width = browser.run("document.querySelector('.recon-pair').getBoundingClientRect().width")
    hidden = "getComputedStyle(document.querySelector('.recon-slider .recon-training')).clipPath"
    assert "50%" in browser.run(hidden)
    x, y = browser.centre(".recon-slider input")
    browser.click(x, y)
    before = browser.run("document.querySelector('.recon-slider input').value")
    browser.key("ArrowRight")
    after = browser.run("document.querySelector('.recon-slider input').value")
    assert int(after) == int(before) + 1, "the range answers to keys"
    assert f"{100 - int(after)}%" in browser.run(hidden), "and the images follow"
    # A pointer over one image moves its own line only.
    x, y = browser.centre(".recon-pair", 1)
    browser.move(x - 0.4 * width, y)
    cuts = browser.run(
        "[...document.querySelectorAll('.recon-pair')].map("
        "p => parseFloat(getComputedStyle(p).getPropertyValue('--cut')))"
    )
    assert cuts[1] == pytest.approx(10, abs=3) and cuts[0] == int(after)
    # What lies on top at the left is the training image, at the right the reconstruction.
    for share, name in ((0.05, "recon-training"), (0.95, "recon-found")):
        spot = browser.run(
            "(() => { const b = document.querySelector('.recon-pair').getBoundingClientRect();"
            f"return document.elementFromPoint(b.x + {share} * b.width, b.y + b.height / 2).className; }})()"
        )
        assert spot == name
    assert browser.console == []


def test_a_point_under_the_pointer_shows_its_pair(browser: Browser, site: Path) -> None:
    browser.look()
    browser.open(site / SEE)
    browser.centre(".recon-scatter")
    told = "document.querySelector('.recon-scatter output').textContent"
    tiles = "[...document.querySelectorAll('.recon-tile')].map(t => getComputedStyle(t).backgroundPosition)"
    best, first = browser.run(told), browser.run(tiles)
    assert first[0] != first[1], "two different parts of the sheet"
    seen = set()
    for number in (3, 40, 77):
        x, y, title = browser.run(
            "(() => { const points = [...document.querySelectorAll('.recon-scatter circle')].sort((a, b) =>"
            "a.textContent.localeCompare(b.textContent));"
            f"const p = points[{number}], b = p.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2, p.textContent]; })()"
        )
        browser.move(x, y)
        assert browser.run(told) == title, "the words are those of the point"
        seen.add(tuple(browser.run(tiles)))
    assert len(seen) == 3 and tuple(first) not in seen
    # Keys: the points are one stop, arrows go from best to worst and back.
    browser.run("document.querySelector('.recon-scatter circle.on').focus()")
    wind_back = "const r = document.querySelector('.recon-scatter input'); r.value = 0;"
    browser.run(f"(() => {{ {wind_back} r.dispatchEvent(new Event('input')); }})()")
    assert browser.run(told) == best and browser.run(tiles) == first
    browser.run("document.querySelector('.recon-scatter circle.on').focus()")
    browser.key("ArrowRight")
    assert browser.run("document.querySelector('.recon-scatter input').value") == "1"
    assert browser.run("document.activeElement.textContent") == browser.run(told) != best
    browser.key("ArrowLeft")
    assert browser.run(told) == best
    assert browser.console == []


def test_the_tiles_show_the_pixels_of_the_pair(browser: Browser, site: Path) -> None:
    """The best pair is in the slider as well, uncompressed: both must be the same picture."""
    browser.look()
    browser.open(site / SEE)
    difference = browser.run("""(async () => {
      const load = address => new Promise(done => {
        const image = new Image(); image.onload = () => done(image); image.src = address; });
      const style = getComputedStyle(document.querySelector('.recon-scatter'));
      const sheet = await load(style.getPropertyValue('--sheet').slice(4, -1).replace(/["']/g, ''));
      const read = (image, x) => {
        const canvas = document.createElement('canvas'); canvas.width = canvas.height = 32;
        const drawing = canvas.getContext('2d'); drawing.drawImage(image, -x, 0);
        return drawing.getImageData(0, 0, 32, 32).data; };
      return Promise.all(['.recon-training', '.recon-found'].map(async (name, k) => {
        const exact = read(await load(document.querySelector('.recon-slider ' + name).src), 0);
        const tile = read(sheet, 32 * k);
        return exact.reduce((sum, v, i) => sum + Math.abs(v - tile[i]), 0) / exact.length; }));
    })()""")
    assert max(difference) < 12, "grey levels of 255, compression included"


def test_the_film_plays_stops_and_winds(browser: Browser, site: Path) -> None:
    browser.look()
    browser.open(site / SEE)
    state = (
        "[document.querySelector('.recon-film input').value,"
        "document.querySelector('.recon-film output').textContent,"
        "document.querySelector('.recon-film button').textContent,"
        "getComputedStyle(document.querySelector('.recon-screen')).backgroundPosition]"
    )
    last = browser.run(state)
    assert last[2] == "Play" and "step" in last[1]
    time.sleep(0.3)
    assert browser.run(state) == last, "nothing moves unasked"
    spot = browser.centre(".recon-film button")
    browser.click(*spot)
    until(lambda: 2 <= int(browser.run(state)[0]) < int(last[0]))
    assert browser.run(state)[2] == "Pause"
    browser.click(*spot)
    stopped = browser.run(state)
    assert stopped[2] == "Play" and stopped[1] != last[1] and stopped[3] != last[3]
    time.sleep(0.3)
    assert browser.run(state) == stopped
    browser.click(*spot)
    until(lambda: browser.run(state) == last)
    assert browser.console == []


def test_the_equation_pulls_candidates_to_the_points(browser: Browser, site: Path) -> None:
    browser.look()
    browser.open(site / "how-it-works.html")
    root = "document.querySelector('.recon-plane')"
    # A fixed sequence instead of chance.
    browser.run("(() => { let s = 7; Math.random = () => (s = (s * 16807) % 2147483647) / 2147483647; })()")
    browser.click(*browser.centre('.recon-plane [data-do="scatter"]'))
    mismatch = float(browser.run(f"{root}.dataset.mismatch"))
    assert mismatch > 0.1
    # A candidate can be dragged, and the mismatch answers.
    side = browser.run(f"{root}.querySelector('svg').getBoundingClientRect().width")
    where = "(c => [+c.getAttribute('cx'), +c.getAttribute('cy')])"
    before = browser.run(f"{where}({root}.querySelector('.candidate'))")
    x, y = browser.centre(".recon-plane .candidate")
    move = 30 if before[0] < 0 else -30
    browser.move(x, y)
    browser.move(x, y, "mousePressed")
    browser.move(x + move / 2, y)
    browser.move(x + move, y)
    browser.move(x + move, y, "mouseReleased")
    after = browser.run(f"{where}({root}.querySelector('.candidate'))")
    assert after[0] - before[0] == pytest.approx(2.8 * move / side, abs=0.03)
    assert float(browser.run(f"{root}.dataset.mismatch")) != mismatch
    browser.click(*browser.centre('.recon-plane [data-do="pull"]'))
    until(lambda: browser.run(f"{root}.dataset.ended || ''"), seconds=60)
    assert float(browser.run(f"{root}.dataset.mismatch")) < 0.01
    farthest = browser.run(
        f"(() => {{ const P = JSON.parse({root}.querySelector('script').textContent).points;"
        f"const C = [...{root}.querySelectorAll('.candidate')].map({where});"
        "return Math.max(...P.map(p => Math.min(...C.map(c => Math.hypot(c[0] - p[0], c[1] - p[1]))))); })()"
    )
    assert farthest < 0.05, "every training point has been found"
    assert browser.run(f"getComputedStyle({root}.querySelector('.truth')).display") == "none"
    browser.click(*browser.centre('.recon-plane input[type="checkbox"]'))
    assert browser.run(f"getComputedStyle({root}.querySelector('.truth')).display") != "none"
    assert browser.console == []


def test_without_script_the_images_stay(browser: Browser, site: Path) -> None:
    browser.look()
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(site / SEE)
        snapshot = browser.call("DOMSnapshot.captureSnapshot", computedStyles=["display", "clip-path"])
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    strings, document = snapshot["strings"], snapshot["documents"][0]
    shown = set()
    for node, styles in zip(document["layout"]["nodeIndex"], document["layout"]["styles"], strict=True):
        attributes = [strings[i] for i in document["nodes"]["attributes"][node]]
        classes = dict(zip(attributes[::2], attributes[1::2], strict=True)).get("class", "")
        if strings[styles[0]] != "none" if styles else False:
            shown.add(classes)
            if classes in ("recon-training", "recon-found"):
                assert strings[styles[1]] == "none", "whole, side by side"
    assert {"recon-training", "recon-found", "recon-stills", "recon-panel"} <= shown
    assert "recon-control" not in shown and "recon-screen" not in shown


# --- the whole site


def test_search_finds_a_page_without_a_network(browser: Browser, site: Path) -> None:
    browser.look()
    browser.open((site / "search.html").as_uri() + "?q=runner-up")
    found = "[...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
    until(lambda: any("how-it-works" in link for link in browser.run(found)))
    assert browser.console == []


def test_pages_print(browser: Browser, site: Path) -> None:
    browser.look()
    browser.open(site / "how-it-works.html")
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF") and len(pdf) > 30_000
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page") >= 2


def test_light_and_dark_follow_the_system(browser: Browser, site: Path) -> None:
    grounds = []
    for dark in (False, True):
        browser.look(dark=dark)
        browser.open(site / "index.html")
        grounds.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] == "rgb(255, 255, 255)" != grounds[1]


def test_axe_sees_a_page_that_not_everyone_can_use(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<html lang=en><title>t</title><main><h1 style='color:#ccc'>pale</h1><img src='data:,'></main></html>"
    )
    browser.look()
    browser.open(bad)
    found = json.dumps(violations(browser, ALL))
    assert "color-contrast" in found and "image-alt" in found
