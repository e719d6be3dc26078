"""First layers as pictures and as candidates."""

from __future__ import annotations

import pytest
import torch

from reconlib.kernels import enlarged, first_layer_candidates, first_layer_images, side_by_side
from reconlib.models import MLP, ConvNet


def test_rows_are_images_and_kernels_stay_small():
    mlp, conv = MLP((3, 8, 8), (6,), seed=1), ConvNet((3, 8, 8), kernel=3, channels=5, hidden=(4,))
    assert first_layer_images(mlp).shape == (6, 3, 8, 8)
    assert first_layer_images(conv).shape == (5, 3, 3, 3)
    assert first_layer_images(mlp, 2).shape == (2, 3, 8, 8)


def test_the_largest_come_first_and_keep_their_pixels():
    mlp = MLP((1, 2, 2), (3,))
    weight = torch.tensor([[1.0, 0, 0, 0], [0, 3, 0, 0], [0, 0, 2, 0]])
    mlp.layers[0].weight.data.copy_(weight)
    torch.testing.assert_close(first_layer_images(mlp), weight[[1, 2, 0]].reshape(3, 1, 2, 2))


def test_candidates_have_image_size_both_signs_and_one_scale():
    conv = ConvNet((3, 8, 8), kernel=3, channels=5, hidden=(4,), seed=2)
    candidates = first_layer_candidates(conv)
    assert candidates.shape == (10, 3, 8, 8)
    torch.testing.assert_close(candidates[5:], -candidates[:5])
    torch.testing.assert_close(candidates.flatten(1).abs().amax(1), torch.full((10,), 0.5))


def test_a_kernel_as_large_as_the_image_is_a_row():
    conv, mlp = ConvNet((1, 4, 4), kernel=4, channels=3, hidden=(2,)), MLP((1, 4, 4), (3, 2))
    mlp.layers[0].weight.data.copy_(conv.layers[0].weight.flatten(1))
    torch.testing.assert_close(first_layer_candidates(conv), first_layer_candidates(mlp))


def test_a_dead_row_gives_no_nan():
    mlp = MLP((1, 2, 2), (2,))
    mlp.layers[0].weight.data.zero_()
    assert bool(first_layer_candidates(mlp).isfinite().all())


def test_blocks_repeat_pixels():
    small = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    expected = torch.tensor([[1.0, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]])
    torch.testing.assert_close(enlarged(small, (4, 4), blocks=True)[0, 0], expected)
    assert not torch.equal(enlarged(small, (4, 4))[0, 0], expected)


def test_two_sets_take_turns_by_rows():
    left, right = torch.arange(5.0).view(5, 1, 1, 1), 10 + torch.arange(4.0).view(4, 1, 1, 1)
    assert side_by_side(left, right, columns=2).flatten().tolist() == [0, 1, 10, 11, 2, 3, 12, 13]
    with pytest.raises(ValueError, match="do not fill one row of 8"):
        side_by_side(left, right, columns=8)
    with pytest.raises(ValueError, match="enlarge the smaller"):
        side_by_side(left, torch.zeros(4, 1, 2, 2), columns=2)
