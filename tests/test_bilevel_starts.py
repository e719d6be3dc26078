"""Starts, measures and pictures of searches over images, on the embedded data."""

from __future__ import annotations

import pytest
import torch

from reconlib.bilevel import Classifier, Training, retrain, search
from reconlib.bilevel.measures import distinct, judge_ending, nearest
from reconlib.bilevel.pictures import against, strips
from reconlib.bilevel.starts import Parts, mixture, named_starts, noise, parts


@pytest.fixture(scope="module")
def images() -> Parts:
    return parts("fashion_mnist_mini", per_class=3, classes=3)


def test_parts_share_no_image_and_one_order_of_labels(images: Parts) -> None:
    assert images.x.shape == images.other.shape == images.control.shape == (9, 1, 28, 28)
    assert images.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    everything = torch.cat([images.x, images.other, images.control]).flatten(1)
    assert torch.pdist(everything).min() > 0.1
    # One mean was removed from all of them: added back, pixels are pixels.
    pixels = everything + images.mean.flatten()
    assert pixels.min() >= -1e-6 and pixels.max() <= 1 + 1e-6
    assert torch.allclose(images.x.mean(0), torch.zeros(()).double(), atol=1e-6)


def test_images_of_one_position_have_one_label(images: Parts) -> None:
    """The classes differ in how much of the image they fill, in every part alike."""
    filled = [(part + images.mean).mean((1, 2, 3)) for part in (images.x, images.other, images.control)]
    trousers = images.y == 1
    for part in filled:
        assert part[trousers].mean() < part[~trousers].mean()


def test_starts(images: Parts) -> None:
    starts = named_starts(images, seed=4)
    assert list(starts) == ["noise", "25% truth", "50% truth", "75% truth", "training images", "other images"]
    assert torch.equal(starts["noise"], noise(images, 4))
    assert torch.equal(starts["training images"], images.x)
    assert torch.equal(starts["other images"], images.other)
    assert torch.allclose(starts["25% truth"], 0.25 * images.x + 0.75 * noise(images, 4))
    assert float(noise(images, 4).std()) == pytest.approx(images.contrast, rel=0.05)
    assert not torch.equal(noise(images, 4), noise(images, 5))
    with pytest.raises(ValueError, match="between 0 and 1"):
        mixture(images.x, images.other, 1.5)


def test_nearest_by_hand() -> None:
    points = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    assert nearest(points, torch.tensor([[0.0, 2.0]])).tolist() == pytest.approx([2**0.5, 6.5**0.5])


def test_distinct_counts_sets_whatever_their_order() -> None:
    one = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    swapped = one.flip(0) + 0.01
    partly = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    assert distinct(torch.stack([one, swapped]), radius=0.05) == 1
    assert distinct(torch.stack([one, swapped]), radius=0.001) == 2
    assert distinct(torch.stack([one, swapped, partly]), radius=0.05) == 2


def test_a_search_from_the_truth_is_judged_as_the_truth(images: Parts) -> None:
    training = Training(Classifier(784, 3), images.y, 0.1)
    target = retrain(training, images.x.flatten(1), training.classifier.start(0)).theta
    at_truth = judge_ending(search("kkt", training, target, images.x, steps=3), images)
    assert at_truth.members == at_truth.start_members == 1.0
    assert at_truth.chance < 1.0
    assert at_truth.to_start < 1e-6 and at_truth.to_truth < 1e-6 and at_truth.to_member < 1e-6
    assert at_truth.to_control > 0.1
    from_noise = judge_ending(search("bilevel", training, target, noise(images), steps=60), images)
    assert from_noise.parameter_distance < 0.01
    assert from_noise.members == from_noise.start_members == 0.0
    assert from_noise.start_to_truth == pytest.approx(2**0.5, rel=0.05)
    assert from_noise.to_truth > 0.5


def test_pictures(images: Parts) -> None:
    rows = {"training image": images.x, "noise": noise(images)}
    picture = strips(rows, images.mean, columns=4, title="a title", alt="two rows")
    assert picture.data.startswith(b"\x89PNG") and picture.alt == "two rows"
    points = {"affine": {"noise": [(1.0, 1e-3), (1.2, 1e-12)]}, "hidden": {"noise": [(1.0, 0.5)]}}
    chart = against(points, x_label="distance", y_label="parameter distance")
    assert chart.kind == "svg"
    assert "affine, noise: 5.0e-04 at 1.10." in chart.alt
    assert "hidden, noise: 5.0e-01 at 1.00." in chart.alt
