"""The closed forms against automatic differentiation, in float64, over networks, equations and chunkings."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from reconlib.attack.activations import SmoothedReLUs, smoothed_relu
from reconlib.attack.equations import EQUATIONS
from reconlib.attack.generic import GenericStationarity
from reconlib.attack.layers import read_chain
from reconlib.attack.problem import closed_form
from reconlib.attack.rowspace import Pixels, row_space
from reconlib.models import MLP, ConvNet, Network

CPU = torch.device("cpu")


def problem(network: Network, equation: str, m: int, dtype: torch.dtype = torch.float64, seed: int = 0):
    """The chain and random candidates, multipliers and labels for it."""
    generator = torch.Generator().manual_seed(seed)
    chain = read_chain(network).to(dtype, CPU)
    entry = EQUATIONS[equation]
    d = torch.Size(network.input_shape).numel()
    x = torch.randn(m, d, generator=generator, dtype=torch.float64).to(dtype)
    l = torch.randn(m, entry.columns(chain.outputs), generator=generator, dtype=torch.float64).to(dtype)
    return chain, entry, x, l, entry.labels(m, chain.outputs)


def per_parameter(network: Network, weights: list[float], bias_weight: float) -> list[float]:
    return [
        weights[int(name.split(".")[1])] * (bias_weight if name.endswith("bias") else 1.0)
        for name, _ in network.named_parameters()
    ]


def assert_close(found, expected, tolerance: float) -> None:
    for name, a, b in zip(("loss", "candidates", "multipliers"), found, expected, strict=True):
        error = float((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30))
        assert error < tolerance, f"{name} differ by {error}"


networks = st.one_of(
    st.builds(
        lambda d, hidden, bias, outputs, seed: MLP(
            (d,), hidden, outputs, bias=bias, first_layer_scale=None, seed=seed
        ),
        st.integers(1, 12),
        st.lists(st.integers(1, 12), max_size=3),
        st.sampled_from(["first", "all", "none"]),
        st.integers(1, 4),
        st.integers(0, 5),
    ),
    st.builds(
        lambda kernel, channels, hidden, bias, outputs: ConvNet(
            (2, 6, 5), kernel, channels, hidden, outputs, bias=bias
        ),
        st.integers(1, 5),
        st.integers(1, 4),
        st.lists(st.integers(1, 8), max_size=2),
        st.sampled_from(["first", "all", "none"]),
        st.integers(1, 3),
    ),
)


@settings(max_examples=120, deadline=None)
@given(network=networks, data=st.data())
def test_closed_form_is_the_oracle(network: Network, data: st.DataObject) -> None:
    outputs = network.settings.outputs
    equation = data.draw(
        st.sampled_from(["general", *(["binary"] if outputs == 1 else ["multiclass", "cross_entropy"])])
    )
    m = data.draw(st.integers(1, 14))
    chunk = data.draw(st.one_of(st.none(), st.integers(1, m)))
    depth = len(network.layers)
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=depth, max_size=depth))
    bias_weight = data.draw(st.sampled_from([0.0, 1.0, 2.0]))
    alpha = data.draw(st.floats(0.5, 60))
    chain, entry, x, l, labels = problem(network, equation, m)

    fast = closed_form(
        chain, Pixels(x.shape[1]), entry, network.input_shape, weights, bias_weight, chunk=chunk
    )
    slow = GenericStationarity(
        network, entry, network.input_shape, weights=per_parameter(network, weights, bias_weight)
    )
    assert fast.target == pytest.approx(slow.target, rel=1e-12)
    assert_close(fast(x, l, labels, alpha), slow(x, l, labels, alpha), 1e-10)
    slow.chunk = chunk
    assert_close(fast(x, l, labels, alpha), slow(x, l, labels, alpha), 1e-10)


@pytest.mark.parametrize("make", [lambda: MLP((7,), (9, 8), 3, first_layer_scale=None),
                                  lambda: ConvNet((2, 5, 5), 3, 3, (6,), 3)])  # fmt: skip
@pytest.mark.parametrize("equation", ["multiclass", "cross_entropy", "general"])
def test_float32_is_close_to_the_oracle(make, equation: str) -> None:
    network = make()
    chain, entry, x, l, labels = problem(network, equation, 9, torch.float32)
    fast = closed_form(chain, Pixels(x.shape[1]), entry, network.input_shape)
    slow = GenericStationarity(network, entry, network.input_shape)
    assert_close(fast(x, l, labels, 5.0), slow(x.double(), l.double(), labels, 5.0), 1e-4)


def test_rounded_products_stay_near_and_can_be_switched_off() -> None:
    network = MLP((64,), (80, 70), 1, first_layer_scale=None)
    chain, entry, x, l, labels = problem(network, "binary", 50, torch.float32)
    fast = closed_form(chain, Pixels(64), entry, (64,))
    exact = [t.clone() for t in fast(x, l, labels, 5.0)]
    fast.products.rounded = True
    rounded = [t.clone() for t in fast(x, l, labels, 5.0)]
    fast.products.rounded = False
    assert_close(rounded, exact, 0.03)
    assert not torch.equal(rounded[1], exact[1])
    assert all(torch.equal(a, b) for a, b in zip(fast(x, l, labels, 5.0), exact, strict=True))


def test_products_between_candidates_replace_a_wide_layer() -> None:
    network = ConvNet((2, 8, 8), 3, 6, (20,), 1)
    chain, entry, x, l, labels = problem(network, "binary", 5)
    fast = closed_form(chain, Pixels(x.shape[1]), entry, (2, 8, 8))
    slow = GenericStationarity(network, entry, (2, 8, 8))
    assert_close(fast(x, l, labels, 9.0), slow(x, l, labels, 9.0), 1e-10)
    assert fast._crossed == {0}


@pytest.mark.parametrize(
    "equation,outputs",
    [("binary", 1), ("multiclass", 3), ("cross_entropy", 4), ("general", 1), ("general", 2)],
)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gradients_are_those_of_finite_differences(equation: str, outputs: int, depth: int) -> None:
    """With a sharp derivative (α large) the loss is differentiable in the ordinary sense off the kinks."""
    network = MLP((5,), (6, 4)[: depth - 1], outputs, first_layer_scale=None)
    chain, entry, x, l, labels = problem(network, equation, 4)
    fast = closed_form(chain, Pixels(5), entry, (5,))
    alpha, step = 1e7, 1e-6
    _, gx, gl = (t.clone() for t in fast(x, l, labels, alpha))
    for value, gradient in ((x, gx), (l, gl)):
        for i in range(value.numel()):
            ends = []
            for sign in (1, -1):
                moved = value.clone()
                moved.view(-1)[i] += sign * step
                arguments = (moved, l) if value is x else (x, moved)
                ends.append(float(fast(*arguments, labels, alpha)[0]))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert slope == pytest.approx(float(gradient.view(-1)[i]), rel=1e-5, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(network=networks, m=st.integers(1, 8))
def test_gram_matrix_is_the_oracles(network: Network, m: int) -> None:
    equation = "binary" if network.settings.outputs == 1 else "multiclass"
    chain, entry, x, _, labels = problem(network, equation, m)
    fast = closed_form(chain, Pixels(x.shape[1]), entry, network.input_shape)
    slow = GenericStationarity(network, entry, network.input_shape)
    for a, b in zip(fast.gram(x, labels, 3.0), slow.gram(x, labels, 3.0), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("spread,whitening", [(0.0, 0.0), (0.5, 0.0)])
def test_row_space_is_the_same_problem_as_pixels(spread: float, whitening: float) -> None:
    """Within the span: same loss up to the constant part of W₁ outside, and the pulled-back gradient."""
    network = MLP((12,), (9, 7), 1, first_layer_scale=None).double()
    chain, entry, x, l, labels = problem(network, "binary", 6)
    space = row_space(chain.weights[0], 5, spread=spread, whitening=whitening)
    u = space.from_pixels(x)
    x = space.to_pixels(u)
    assert torch.allclose(space.from_pixels(x), u, atol=1e-12)
    inside = closed_form(chain, space, entry, (12,))(u, l, labels, 6.0)
    pixels = closed_form(chain, Pixels(12), entry, (12,))(x, l, labels, 6.0)
    outside = chain.weights[0] - chain.weights[0] @ space.basis.T @ space.basis
    assert float(inside[0] + outside.square().sum()) == pytest.approx(float(pixels[0]), rel=1e-12)
    assert torch.allclose(inside[1], space.pull_back(pixels[1]), atol=1e-11)
    assert torch.allclose(inside[2], pixels[2], atol=1e-12)


def test_whitening_weighs_the_columns_of_the_residual() -> None:
    network = MLP((8,), (6, 5), 1, bias="none", first_layer_scale=None).double()
    chain, entry, x, l, labels = problem(network, "binary", 3)
    space = row_space(chain.weights[0], 6, spread=0.25, whitening=0.5)
    u = space.from_pixels(x)
    loss = closed_form(chain, space, entry, (8,), [1.0, 0.0, 0.0])(u, l, labels, 4.0)[0]
    slow = GenericStationarity(network, entry, (8,))
    total = slow._sum(space.to_pixels(u), l, labels, 4.0, 3, graph=False)[0]
    values = space.spectrum.singular_values
    q = (values / values[0] + 1e-4) ** -0.5
    expected = (((chain.weights[0] - total) @ space.basis.T) * q).square().sum()
    assert float(loss) == pytest.approx(float(expected), rel=1e-10)


def test_smoothed_relu_and_its_two_derivatives() -> None:
    z = torch.linspace(-1, 1, 11, dtype=torch.float64, requires_grad=True)
    h = smoothed_relu(z, 5.0)
    assert torch.equal(h, torch.relu(z))
    (first,) = torch.autograd.grad(h.sum(), z, create_graph=True)
    p = torch.sigmoid(5 * z)
    assert torch.allclose(first, p)
    (second,) = torch.autograd.grad(first.sum(), z)
    assert torch.allclose(second, 5 * p * (1 - p))


@pytest.mark.parametrize(
    "relu", [torch.relu, nn.functional.relu, nn.ReLU(), nn.ReLU(inplace=True), torch.Tensor.relu]
)
def test_every_spelling_of_relu_is_smoothed(relu) -> None:
    z = torch.tensor([-0.1, 0.2], dtype=torch.float64, requires_grad=True)
    with SmoothedReLUs(3.0):
        h = relu(z * 1)
    (gradient,) = torch.autograd.grad(h.sum(), z)
    assert torch.allclose(gradient, torch.sigmoid(3 * z))


def test_any_module_goes_through_the_oracle() -> None:
    """A residual network has no closed form here; written as a chain where it is one, the two agree."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(5, 4), nn.Linear(4, 2, bias=False)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    own = Own()
    assert read_chain(own) is None
    chain = read_chain(nn.Sequential(own.a, nn.ReLU(), own.b)).to(torch.float64, CPU)
    entry = EQUATIONS["multiclass"]
    x, l = torch.randn(6, 5, dtype=torch.float64), torch.rand(6, 1, dtype=torch.float64)
    labels = entry.labels(6, 2)
    assert_close(
        closed_form(chain, Pixels(5), entry, (5,))(x, l, labels, 7.0),
        GenericStationarity(own, entry, (5,))(x, l, labels, 7.0),
        1e-10,
    )


def test_a_network_with_a_forward_of_its_own_is_not_taken_for_a_chain() -> None:
    class Squared(Network):
        def forward(self, x):
            return super().forward(x).square()

    settings = MLP((5,), (4,), 1).settings
    assert read_chain(Network(settings)) is not None
    assert read_chain(Squared(settings)) is None


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 1)),
        nn.Sequential(nn.Linear(5, 4), nn.ReLU()),
        nn.Sequential(nn.Conv2d(1, 2, 3, groups=1, dilation=2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 1)),
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.ReLU(), nn.Linear(4, 1)),
    ],
)
def test_other_sequences_are_left_to_the_oracle(model: nn.Module) -> None:
    assert read_chain(model) is None


@pytest.mark.parametrize("stride,padding", [(2, 0), (1, 1), (2, 2)])
def test_strided_and_padded_convolutions(stride: int, padding: int) -> None:
    side = (6 + 2 * padding - 3) // stride + 1
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=stride, padding=padding),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3 * side * side, 1),
    )
    chain, entry = read_chain(model).to(torch.float64, CPU), EQUATIONS["binary"]
    x, l = torch.randn(4, 72, dtype=torch.float64), torch.rand(4, 1, dtype=torch.float64)
    labels = entry.labels(4, 1)
    assert_close(
        closed_form(chain, Pixels(72), entry, (2, 6, 6))(x, l, labels, 5.0),
        GenericStationarity(model, entry, (2, 6, 6))(x, l, labels, 5.0),
        1e-10,
    )
