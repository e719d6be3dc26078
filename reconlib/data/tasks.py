"""The papers' tasks: labels from classes, balanced draws, the training mean removed and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .catalogue import DATASETS, DatasetInfo, dataset_info
from .errors import DataError
from .selection import select
from .sources import load_dataset


@dataclass(frozen=True)
class Binary:
    """Two groups of classes: label 1 is the first-named group, label 0 the other."""

    label_names: tuple[str, str]  # of label 0, of label 1
    ones: tuple[int, ...] | None = None  # classes of label 1; None: by parity
    odd_is_one: bool = True
    datasets: tuple[str, ...] = tuple(DATASETS)

    def label(self, class_index: int) -> int:
        if self.ones is not None:
            return int(class_index in self.ones)
        return int((class_index % 2 == 1) == self.odd_is_one)


BINARY_TASKS: dict[str, Binary] = {
    "vehicles_vs_animals": Binary(("animals", "vehicles"), ones=(0, 1, 8, 9), datasets=("cifar10",)),
    "odd_vs_even": Binary(("even", "odd")),
    "even_vs_odd_classes": Binary(("odd classes", "even classes"), odd_is_one=False),
}
MULTICLASS = "multiclass"
BINARY_TEST_IMAGES = 1_000  # both papers; their multiclass tasks use the whole test file


@dataclass(frozen=True, eq=False)
class Task:
    """Images and labels ready to train on, with a test set and a held-out draw for controls.

    Images are `(n, C, H, W)` float32 in [0, 1] minus `mean`; labels are `(n,)` int64. Positions in
    `*_indices` count through the training file and then the test file.
    """

    name: str
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    x_held_out: Tensor
    y_held_out: Tensor
    mean: Tensor  # (C, H, W), of the training images
    classes: int
    checksum: str  # SHA-256 of what training sees: x and y
    dataset: str
    label_names: tuple[str, ...]
    train_indices: Tensor
    held_out_indices: Tensor
    test_indices: Tensor

    @property
    def outputs(self) -> int:
        """How many outputs a network for this task has: one for a binary task, else one per class."""
        return 1 if self.classes == 2 else self.classes


def available() -> dict[str, tuple[str, ...]]:
    """Every data set and the tasks it supports."""
    return {
        name: (*(task for task, binary in BINARY_TASKS.items() if name in binary.datasets), MULTICLASS)
        for name in DATASETS
    }


def load_task(
    dataset: str = "cifar10",
    task: str = "vehicles_vs_animals",
    per_class: int = 250,
    classes: int | Sequence[int | str] | None = None,
    offset: int = 0,
    test: int | None = None,
    root: str | Path | None = None,
) -> Task:
    """Load a task: the first `per_class` images of each label in file order, after skipping `offset`.

    `classes` restricts `multiclass` to the first so many classes, or to those named, in that order. `test`
    is the number of test images, balanced (default: 1,000 for a binary task, else all).
    """
    info = dataset_info(dataset)
    label_of_class, label_names, title = _labels(info, task, classes)
    data = load_dataset(dataset, root)
    y_all = label_of_class[torch.cat([data.y_train, data.y_test])]
    size = len(data.y_train)
    binary = task != MULTICLASS
    chosen = select(
        y_all[:size],
        y_all[size:],
        label_names,
        per_class,
        offset,
        test,
        BINARY_TEST_IMAGES if binary else None,
    )

    def images(positions: Tensor) -> Tensor:
        inside = positions < size  # held-out draws may reach into the test file, always at their end
        return torch.cat([data.x_train[positions[inside]], data.x_test[positions[~inside] - size]])

    pixels = images(chosen.train)
    # An exact whole-number sum: the same mean on every machine, whatever the order of addition.
    mean = (pixels.sum(0, dtype=torch.int64).double() / (255 * len(pixels))).float()
    x, x_test, x_held_out = (
        images(p).float() / 255 - mean for p in (chosen.train, chosen.test, chosen.held_out)
    )
    y, y_test, y_held_out = (y_all[p] for p in (chosen.train, chosen.test, chosen.held_out))
    return Task(
        name=f"{dataset}/{title}/{per_class}" + (f"/offset{offset}" if offset else ""),
        x=x,
        y=y,
        x_test=x_test,
        y_test=y_test,
        x_held_out=x_held_out,
        y_held_out=y_held_out,
        mean=mean,
        classes=len(label_names),
        checksum=_checksum(x, y),
        dataset=dataset,
        label_names=label_names,
        train_indices=chosen.train,
        held_out_indices=chosen.held_out,
        test_indices=chosen.test,
    )


def _labels(
    info: DatasetInfo, task: str, classes: int | Sequence[int | str] | None
) -> tuple[Tensor, tuple[str, ...], str]:
    """The label of each class (−1: unused), the labels' names, and the task's part of the name."""
    total = len(info.class_names)
    if task not in available()[info.name]:
        raise DataError(f"no task {task!r} for {info.name}; it has {', '.join(available()[info.name])}")
    if task != MULTICLASS:
        if classes not in (None, total):
            raise DataError(
                f"{task} uses all {total} classes of {info.name}: leave `classes` out, not {classes!r}"
            )
        binary = BINARY_TASKS[task]
        return torch.tensor([binary.label(c) for c in range(total)]), binary.label_names, task
    chosen = _chosen_classes(info, classes)
    label_of_class = torch.full((total,), -1)
    label_of_class[chosen] = torch.arange(len(chosen))
    first = chosen == list(range(len(chosen)))
    title = f"{task}{len(chosen)}" if first else f"{task}-" + "-".join(map(str, chosen))
    return label_of_class, tuple(info.class_names[c] for c in chosen), title


def _chosen_classes(info: DatasetInfo, classes: int | Sequence[int | str] | None) -> list[int]:
    names = info.class_names
    listing = ", ".join(f"{i} {name}" for i, name in enumerate(names))
    if classes is None:
        return list(range(len(names)))
    if isinstance(classes, int):
        if not 3 <= classes <= len(names):
            raise DataError(
                f"classes must be 3 to {len(names)} for {info.name}, not {classes}; it has {listing}"
            )
        return list(range(classes))
    chosen = [names.index(c) if c in names else c for c in classes]
    unknown = [c for c in chosen if not isinstance(c, int) or not 0 <= c < len(names)]
    if unknown or len(set(chosen)) != len(chosen) or len(chosen) < 3:
        problem = f"no class {unknown[0]!r}" if unknown else "at least three different classes are needed"
        raise DataError(f"{problem} in {info.name}; it has {listing}")
    return [int(c) for c in chosen]


def _checksum(x: Tensor, y: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in (x, y):
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
