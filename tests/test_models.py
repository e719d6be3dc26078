"""Networks: shapes, starts, and the homogeneity that the stationarity equation rests on."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reconlib.models import MLP, ConvNet, ModelSettings, Network, settings_to_dict


@settings(max_examples=40, deadline=None)
@given(
    hidden=st.lists(st.integers(1, 6), max_size=3),
    outputs=st.integers(1, 4),
    bias=st.sampled_from(["first", "none"]),
    conv=st.booleans(),
    factor=st.floats(0.1, 4.0),
    seed=st.integers(0, 100),
)
def test_outputs_are_homogeneous_of_degree_depth(hidden, outputs, bias, conv, factor, seed) -> None:
    front = {"kernel": 2, "channels": 2} if conv else {}
    model = ModelSettings((2, 4, 4), outputs, tuple(hidden), bias, None, seed=seed, **front)
    network, scaled = Network(model).double(), Network(model).double()
    scaled.load_state_dict({name: factor * value for name, value in network.state_dict().items()})
    x = torch.randn(5, 2, 4, 4, generator=torch.Generator().manual_seed(seed)).double()
    expected = factor ** len(network.layers) * network(x)
    torch.testing.assert_close(scaled(x), expected, rtol=1e-10, atol=1e-12)


def test_biases_everywhere_break_homogeneity() -> None:
    network = MLP((4,), (5, 5), bias="all", first_layer_scale=None).double()
    doubled = MLP((4,), (5, 5), bias="all", first_layer_scale=None).double()
    doubled.load_state_dict({name: 2 * value for name, value in network.state_dict().items()})
    x = torch.randn(3, 4).double()
    assert not torch.allclose(doubled(x), 8 * network(x), rtol=1e-3)


@pytest.mark.parametrize(("bias", "where"), [("first", [1, 0, 0]), ("all", [1, 1, 1]), ("none", [0, 0, 0])])
def test_bias_is_where_it_was_asked_for(bias, where) -> None:
    assert [layer.bias is not None for layer in MLP((4,), (5, 6), bias=bias).layers] == [
        bool(w) for w in where
    ]


def test_images_and_flat_rows_give_the_same_outputs() -> None:
    x = torch.randn(3, 2, 5, 5)
    for network in (MLP((2, 5, 5), (7,), outputs=3), ConvNet((2, 5, 5), kernel=3, channels=4, hidden=(6,))):
        torch.testing.assert_close(network(x), network(x.flatten(1)))
    assert ConvNet((2, 5, 5), kernel=3, channels=4, hidden=(6,)).layers[1].in_features == 4 * 3 * 3


def test_the_affine_classifier_is_one_layer() -> None:
    network = MLP((3, 2, 2), (), outputs=4)
    assert [layer.weight.shape for layer in network.layers] == [(4, 12)]


def test_starts_follow_the_settings_and_the_seed() -> None:
    scaled = MLP((1, 30, 30), (500, 20), first_layer_scale=1e-3)
    assert float(scaled.layers[0].weight.detach().std()) == pytest.approx(1e-3, rel=0.02)
    bound = 1 / 500**0.5
    for layer in (scaled.layers[1], MLP((500,), (20,), first_layer_scale=None).layers[0]):
        assert float(layer.weight.detach().abs().max()) <= bound
        assert float(layer.weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.05)
    same, other = MLP((4,), (5,), seed=1), MLP((4,), (5,), seed=2)
    assert torch.equal(same.layers[0].weight, MLP((4,), (5,), seed=1).layers[0].weight)
    assert not torch.equal(same.layers[0].weight, other.layers[0].weight)


def test_a_start_does_not_touch_the_global_generator() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    MLP((4,), (5,))
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bias": "some"}, "'first', 'all', 'none'"),
        ({"hidden": (0,)}, "positive whole number"),
        ({"kernel": 3}, "both kernel and channels"),
        ({"kernel": 9, "channels": 2}, "does not fit"),
        ({"input_shape": (4,), "kernel": 1, "channels": 2}, r"\(C, H, W\)"),
    ],
)
def test_impossible_settings_are_explained(values, message) -> None:
    with pytest.raises(ValueError, match=message):
        ModelSettings(**{"input_shape": (1, 4, 4), "outputs": 1, **values})


def test_settings_survive_their_dictionary() -> None:
    model = ModelSettings((1, 4, 4), 2, (3,), "all", None, 2, 3, 7)
    assert ModelSettings(**settings_to_dict(model)) == model
