"""Tasks on the embedded data set: which images, which labels, what is removed, what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reconlib.data import DataError, Task, available, load_dataset, load_task
from reconlib.data.catalogue import DATASETS
from reconlib.data.selection import select

MINI = "fashion_mnist_mini"


def pixels(task: Task, x: torch.Tensor) -> torch.Tensor:
    return ((x + task.mean) * 255).round().to(torch.uint8)


def test_the_embedded_data_set_is_small_balanced_and_licensed() -> None:
    data = load_dataset(MINI, download=False)
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        assert x.shape == (1000, 1, 28, 28) and x.dtype == torch.uint8
        assert y.bincount().tolist() == [100] * 10
    assert sum(file.stat().st_size for file in data.folder.iterdir()) < 1_000_000
    licence = (data.folder / "LICENSE.txt").read_text()
    assert "Zalando SE" in licence and "MIT License" in licence


@pytest.mark.parametrize("task", ["odd_vs_even", "even_vs_odd_classes", "multiclass"])
@pytest.mark.parametrize("offset", [0, 7])
def test_draws_are_the_first_per_label_in_file_order(task: str, offset: int) -> None:
    data = load_dataset(MINI)
    loaded = load_task(MINI, task, per_class=20, offset=offset)
    labels = {"odd_vs_even": data.y_train % 2, "even_vs_odd_classes": 1 - data.y_train % 2}.get(
        task, data.y_train
    )
    seen: dict[int, int] = {}
    train, held_out = [], []
    for position, label in enumerate(labels.tolist()):  # an obviously right, slow reading of the rule
        seen[label] = seen.get(label, 0) + 1
        if offset < seen[label] <= offset + 20:
            train.append(position)
        elif offset + 20 < seen[label] <= offset + 40:
            held_out.append(position)
    assert loaded.train_indices.tolist() == train
    assert loaded.held_out_indices.tolist() == held_out
    assert torch.equal(loaded.y, labels[train]) and torch.equal(loaded.y_held_out, labels[held_out])
    assert torch.equal(pixels(loaded, loaded.x), data.x_train[train])
    assert torch.equal(pixels(loaded, loaded.x_held_out), data.x_train[held_out])


def test_binary_labels_name_the_first_group_one() -> None:
    odd = load_task(MINI, "odd_vs_even", 5)
    even = load_task(MINI, "even_vs_odd_classes", 5)
    assert odd.label_names == ("even", "odd") and odd.classes == 2 and odd.outputs == 1
    assert even.label_names[1] == "even classes"
    assert torch.equal(odd.y, 1 - even.y) and torch.equal(odd.x, even.x)


def test_the_training_mean_is_removed_everywhere_and_kept() -> None:
    task = load_task(MINI, "multiclass", 10)
    assert task.outputs == task.classes == 10
    assert task.x.dtype == torch.float32 and task.y.dtype == torch.int64
    assert task.mean.shape == (1, 28, 28)
    assert task.x.double().mean(0).abs().max() < 1e-6
    assert task.x_test.double().mean(0).abs().max() > 1e-3  # another set's own mean was not removed
    data = load_dataset(MINI)
    expected = (data.x_train[task.train_indices].double() / 255).mean(0)
    torch.testing.assert_close(task.mean.double(), expected, rtol=0, atol=1e-7)
    images = task.x + task.mean
    assert images.min() >= -1e-6 and images.max() <= 1 + 1e-6


def test_test_sets_have_the_papers_sizes_unless_told() -> None:
    assert len(load_task(MINI, "odd_vs_even", 10).x_test) == 1000
    assert len(load_task(MINI, "multiclass", 10, classes=4).x_test) == 400
    seven = load_task(MINI, "odd_vs_even", 10, test=7)
    assert seven.y_test.bincount().tolist() == [4, 3]
    none = load_task(MINI, "odd_vs_even", 10, test=0)
    assert none.x_test.shape == (0, 1, 28, 28) and none.y_test.shape == (0,)


def test_a_label_that_runs_out_is_held_out_from_the_test_file_without_touching_the_test_set() -> None:
    task = load_task(MINI, "multiclass", 80)  # 100 of each class: 20 spare, 60 borrowed
    data = load_dataset(MINI)
    borrowed = task.held_out_indices[task.held_out_indices >= 1000] - 1000
    assert data.y_test[borrowed].bincount().tolist() == [60] * 10
    assert task.y_held_out.bincount().tolist() == [80] * 10
    assert task.y_test.bincount().tolist() == [40] * 10
    assert torch.equal(pixels(task, task.x_held_out)[200:], data.x_test[borrowed])
    draws = [set(t.tolist()) for t in (task.train_indices, task.held_out_indices, task.test_indices)]
    assert len(set.union(*draws)) == sum(map(len, draws))


@settings(max_examples=60, deadline=None)
@given(
    labels=st.integers(2, 5),
    sizes=st.tuples(st.integers(1, 60), st.integers(0, 30)),
    per_class=st.integers(1, 8),
    offset=st.integers(0, 5),
    test=st.none() | st.integers(0, 20),
    seed=st.integers(0, 99),
)
def test_draws_never_overlap_and_are_complete_or_refused(
    labels: int, sizes: tuple[int, int], per_class: int, offset: int, test: int | None, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    train, other = (torch.randint(-1, labels, (size,), generator=generator) for size in sizes)
    names = tuple(f"label {i}" for i in range(labels))
    counts = [(int((train == i).sum()), int((other == i).sum())) for i in range(labels)]
    share = [0 if test is None else test // labels + (i < test % labels) for i in range(labels)]
    room = all(
        offset + per_class <= a
        and offset + 2 * per_class + max(share[i], test is None) <= a + b
        # the test set's share must fit in the test file
        and max(share[i], test is None) <= b
        for i, (a, b) in enumerate(counts)
    )
    if not room:
        with pytest.raises(DataError, match="not enough images of label"):
            select(train, other, names, per_class, offset, test)
        return
    chosen = select(train, other, names, per_class, offset, test)
    everything = torch.cat([train, other])
    for draw in (chosen.train, chosen.held_out):
        assert everything[draw].bincount(minlength=labels).tolist() == [per_class] * labels
    if test is not None:
        assert everything[chosen.test].bincount(minlength=labels).tolist() == share
    positions = torch.cat([chosen.train, chosen.held_out, chosen.test]).tolist()
    assert len(set(positions)) == len(positions)
    assert all(p < len(train) for p in chosen.train.tolist())
    assert all(p >= len(train) for p in chosen.test.tolist())


def test_classes_by_number_and_by_name_give_the_same_task() -> None:
    by_name = load_task(MINI, "multiclass", 5, classes=["bag", "coat", "sandal"])
    by_number = load_task(MINI, "multiclass", 5, classes=[8, 4, 5])
    assert by_name.label_names == ("bag", "coat", "sandal")
    assert by_name.checksum == by_number.checksum and by_name.name == by_number.name
    data = load_dataset(MINI)
    classes = data.y_train[by_name.train_indices]
    assert torch.equal(torch.tensor([8, 4, 5])[by_name.y], classes)


def test_names_and_checksums_tell_tasks_apart() -> None:
    tasks = [
        load_task(MINI, "odd_vs_even", 10),
        load_task(MINI, "even_vs_odd_classes", 10),
        load_task(MINI, "odd_vs_even", 11),
        load_task(MINI, "odd_vs_even", 10, offset=1),
        load_task(MINI, "multiclass", 10),
        load_task(MINI, "multiclass", 10, classes=3),
        load_task(MINI, "multiclass", 10, classes=[2, 1, 0]),
    ]
    assert len({task.name for task in tasks}) == len({task.checksum for task in tasks}) == len(tasks)
    assert tasks[0].name == f"{MINI}/odd_vs_even/10"
    assert load_task(MINI, "odd_vs_even", 10, test=20).checksum == tasks[0].checksum


def test_a_task_is_the_same_in_another_process_with_more_threads() -> None:
    script = f"""
import torch; torch.set_num_threads(2)
from reconlib.data import load_task
print(load_task({MINI!r}, "multiclass", 50).checksum)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.strip() == load_task(MINI, "multiclass", 50).checksum, run.stderr


def test_a_task_cannot_be_changed_by_accident() -> None:
    with pytest.raises(FrozenInstanceError):
        load_task(MINI, "odd_vs_even", 2).name = "other"  # type: ignore[misc]


def test_available_lists_every_data_set_and_only_tasks_that_load() -> None:
    assert set(available()) == set(DATASETS) == {"cifar10", "cifar100", "mnist", "fashion_mnist", MINI}
    assert "vehicles_vs_animals" in available()["cifar10"]
    for task in available()[MINI]:
        assert len(load_task(MINI, task, 1).x) >= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": "cifar"}, "unknown data set 'cifar'; there are cifar10, cifar100, mnist"),
        ({"task": "cats_vs_dogs"}, "no task 'cats_vs_dogs' for fashion_mnist_mini; it has odd_vs_even"),
        ({"task": "vehicles_vs_animals"}, "it has odd_vs_even, even_vs_odd_classes, multiclass"),
        ({"classes": 11}, "classes must be 3 to 10 .* 0 t-shirt, 1 trouser"),
        ({"classes": 2}, "classes must be 3 to 10"),
        ({"classes": ["bag", "coat", "hat"]}, "no class 'hat' .* 8 bag, 9 ankle_boot"),
        ({"classes": [0, 1, 10]}, "no class 10 "),
        ({"classes": [0, 1, 1]}, "at least three different classes"),
        ({"task": "odd_vs_even", "classes": 4}, "uses all 10 classes"),
        ({"per_class": 0}, "per_class must be at least 1"),
        ({"offset": -1}, "offset and test at least 0"),
        ({"test": -5}, "offset and test at least 0"),
        (
            {"per_class": 101},
            "'t-shirt': the training file has 100, the test file 100; asked for were 0 to skip",
        ),
        ({"per_class": 100}, "not enough images"),
        ({"per_class": 60, "test": 900}, "60 to hold out and 90 to test"),
        ({"offset": 99, "per_class": 2}, "99 to skip"),
    ],
)
def test_bad_input_is_refused_with_what_exists(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_task(**{"dataset": MINI, "task": "multiclass", "per_class": 10, **arguments})  # type: ignore[arg-type]
