"""Which images a task uses: balanced, the first of each label in file order, draws that never overlap.

Positions count through both files: image j of the test file has position `train_size + j`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import DataError


@dataclass(frozen=True, eq=False)
class Selection:
    """Positions of the three draws, each `(k,)` int64 in file order."""

    train: Tensor
    held_out: Tensor
    test: Tensor


def select(
    train_labels: Tensor,
    test_labels: Tensor,
    label_names: tuple[str, ...],
    per_class: int,
    offset: int = 0,
    test: int | None = None,
    default_test: int | None = None,
) -> Selection:
    """Draw `per_class` images of each label to train on, as many to hold out, and a test set.

    Labels are −1 where the task does not use an image. Held-out images follow the training images in the
    training file; when a label runs out there, the rest comes from the end of the test file. `test` is
    the exact number of test images; None takes `default_test` of them (or all), less where the
    held-out draw leaves less.
    """
    if per_class < 1 or offset < 0 or (test is not None and test < 0):
        raise DataError(
            f"per_class must be at least 1, offset and test at least 0 (not {per_class}, {offset}, {test})"
        )
    train, held_out, tests = [], [], []
    quota = _quotas(test if test is not None else default_test, len(label_names))
    for label, name in enumerate(label_names):
        in_train = torch.nonzero(train_labels == label).flatten()
        in_test = torch.nonzero(test_labels == label).flatten() + len(train_labels)
        used = offset + per_class
        spare = in_train[used : used + per_class]
        borrowed = per_class - len(spare)
        left = len(in_test) - borrowed
        wanted = 1 if test is None else quota[label] or 0
        if used > len(in_train) or left < wanted:
            raise DataError(
                f"not enough images of label {name!r}: the training file has {len(in_train)}, the test file "
                f"{len(in_test)}; asked for were {offset} to skip, {per_class} to train on (both in the "
                f"training file), {per_class} to hold out and {wanted} to test. "
                "Lower per_class, offset or test."
            )
        train.append(in_train[offset:used])
        held_out.append(torch.cat([spare, in_test[left:]]))
        tests.append(in_test[:left][: quota[label]])
    return Selection(*(torch.cat(positions).sort().values for positions in (train, held_out, tests)))


def _quotas(total: int | None, labels: int) -> list[int | None]:
    """Share `total` test images between labels as evenly as possible; None means no limit."""
    if total is None:
        return [None] * labels
    return [total // labels + (label < total % labels) for label in range(labels)]
