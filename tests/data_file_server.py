"""A real file server for the tests of the data, which can misbehave in every way a server may.

It holds the embedded images under the names of the full Fashion-MNIST, and the catalogue is told so;
everything between the socket and the tensors is the code that fetches the full data sets.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reconlib.data.catalogue import DATASETS, IDX_FILES, Layout
from reconlib.data.formats import gunzipped

MINI = DATASETS["fashion_mnist_mini"]
NAMES = [f"{name}.gz" for name in IDX_FILES]
RAW = "FashionMNIST/raw"
SMALL = replace(
    MINI,
    name="fashion_mnist",
    layouts=(Layout(RAW, tuple(NAMES), gunzipped),),
    torchvision_class="FashionMNIST",
)


class FileServer:
    """Serves `files`; `behaviour` says for each name how the server misbehaves."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.behaviour: dict[str, str] = {}
        self.requests: list[str] = []
        self.stalled = threading.Event()
        self.go_on = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/files"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.removeprefix("/files/")
        self.requests.append(name)
        content, how = self.files.get(name), self.behaviour.get(name, "")
        if content is None:
            request.send_error(404)
            return
        if how == "altered":
            content = content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]
        if how == "cut and claims to be whole":
            content = content[: len(content) // 2]
        request.send_response(200)
        if how != "no length":
            request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if how == "connection lost":
            request.wfile.write(content[: len(content) // 2])
            return
        if how == "stalls":
            request.wfile.write(content[: len(content) // 2])
            request.wfile.flush()
            self.stalled.set()
            self.go_on.wait(30)
            content = content[len(content) // 2 :]
        try:
            request.wfile.write(content)
        except OSError:  # the client was killed, as some tests want
            pass

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def serving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    """The body of a fixture: a server with the small Fashion-MNIST, a cache of its own, and no npm."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(DATASETS, "fashion_mnist", SMALL)
    server = FileServer()
    folder = Path(MINI.layouts[0].folder)
    server.files = {name: (folder / name).read_bytes() for name in NAMES}
    yield server
    server.close()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []
