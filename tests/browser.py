"""A real browser for tests: Chromium, spoken to over two pipes in the DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--allow-file-access-from-files", "--remote-debugging-pipe",
)  # fmt: skip


def find_chromium() -> str | None:
    """The path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(RuntimeError):
    """The browser refused a command, or a script in the page failed."""


class Browser:
    """One Chromium with one page; everything that pages write to the console is kept in `console`."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        read_commands, self._out = os.pipe()
        self._in, write_answers = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        line = f'exec "$0" "$@" 3<&{read_commands} 4>&{write_answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", line, program, *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"],
            pass_fds=(read_commands, write_answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._count = itertools.count(1)
        self._rest = b""
        self._events: list[dict[str, Any]] = []
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and remove what it left."""
        os.close(self._out)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to the page."""
        return self._call(method, self._session, **parameters)

    def look(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Window size and colour scheme, from the next page on."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=phone)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme, still])

    def open(self, page: Path | str, seconds: float = 20) -> None:
        """Load a page and wait until its scripts and formulas are done."""
        self._events.clear()
        self.console.clear()
        self.requests.clear()
        self.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        self._wait_for("Page.loadEventFired", seconds)
        ready = "window.MathJax && MathJax.startup ? MathJax.startup.promise.then(() => true) : true"
        self.run(ready)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True,
                           userGesture=True)  # fmt: skip
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def move(self, x: float, y: float, kind: str = "mouseMoved") -> None:
        """A real movement of the pointer, or "mousePressed" and "mouseReleased"."""
        pressed = {"button": "left", "buttons": 1, "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.move(x, y, kind)

    def key(self, name: str) -> None:
        """A key that is pressed and let go."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Enter": 13}
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=codes[name])  # fmt: skip

    def centre(self, selector: str, number: int = 0) -> tuple[float, float]:
        """Where an element is in the window, after scrolling to it."""
        box = self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{number}];"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def screenshot(self, path: Path, full: bool = True) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._count)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _wait_for(self, event: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not any(e["method"] == event for e in self._events):
            self._read(deadline, event)

    def _read(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise BrowserError(f"no answer to {what} in time")
            block = os.read(self._in, 1 << 20)
            if not block:
                raise BrowserError(f"the browser ended during {what}")
            self._rest += block
        line, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self._note(message)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        given = event["params"]
        if event["method"] == "Runtime.consoleAPICalled":
            words = " ".join(str(a.get("value", a.get("description", ""))) for a in given["args"])
            self.console.append(f"{given['type']}: {words}")
        elif event["method"] == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.console.append(
                "exception: " + details.get("exception", {}).get("description", details["text"])
            )
        elif event["method"] == "Log.entryAdded":
            entry = given["entry"]
            self.console.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
