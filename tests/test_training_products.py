"""Hand-written passes against autograd in float64, in the span and over pixels, dense and convolutional."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from reconlib.models import ModelSettings, Network
from reconlib.training.products import Products
from reconlib.training.span import pixel_span, span_of
from reconlib.training.symmetry import shrink

networks = st.builds(
    lambda hidden, outputs, bias, conv, seed: ModelSettings(
        (2, 4, 4), outputs, tuple(hidden), bias, None, *((2, 3) if conv else (None, None)), seed
    ),
    hidden=st.lists(st.integers(1, 7), max_size=3),
    outputs=st.integers(1, 3),
    bias=st.sampled_from(["first", "all", "none"]),
    conv=st.booleans(),
    seed=st.integers(0, 99),
)


class SmoothedReLU(torch.autograd.Function):
    """The oracle: ReLU forward, σ(αz) backward."""

    @staticmethod
    def forward(context, z: Tensor, alpha: float) -> Tensor:
        context.save_for_backward(z)
        context.alpha = alpha
        return z.clamp_min(0)

    @staticmethod
    def backward(context, upstream: Tensor) -> tuple[Tensor, None]:
        (z,) = context.saved_tensors
        return upstream * torch.sigmoid(context.alpha * z), None


def images(n: int, seed: int) -> Tensor:
    return torch.randn(n, 2, 4, 4, generator=torch.Generator().manual_seed(seed)).double()


def outputs_of(network: Network, x: Tensor, alpha: float | None) -> Tensor:
    z = x if isinstance(network.layers[0], nn.Conv2d) else x.flatten(1)
    for k, layer in enumerate(network.layers):
        if k:
            z = (torch.relu(z) if alpha is None else SmoothedReLU.apply(z, alpha)).flatten(1)
        z = layer(z)
    return z


@settings(max_examples=60, deadline=None)
@given(
    model=networks,
    n=st.integers(1, 12),
    space=st.sampled_from(["span", "pixels"]),
    alpha=st.sampled_from([None, 3.0]),
    subset=st.booleans(),
)
def test_passes_agree_with_autograd(model, n, space, alpha, subset) -> None:
    network = Network(model).double()
    x = images(n, model.seed)
    rows = torch.arange(0, n, 2) if subset else None
    chosen = x if rows is None else x[rows]
    engine = Products(network, x, torch.float64, space)
    engine.sharpness = alpha
    theta = engine.read(network)
    outputs = outputs_of(network, chosen, alpha)
    torch.testing.assert_close(engine.forward(theta, rows), outputs.detach(), rtol=1e-10, atol=1e-12)
    direction = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1)).double()
    gradients = torch.autograd.grad((outputs * direction).sum(), list(network.parameters()))
    # Read the oracle's gradient through the same coordinates: it must have no part outside them.
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        parameter.data = gradient
    expected = engine.read(network)
    torch.testing.assert_close(engine.backward(direction), expected, rtol=1e-8, atol=1e-11)
    total = torch.stack([g.square().sum() for g in gradients]).sum()
    torch.testing.assert_close(expected.square().sum(), total, rtol=1e-8, atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(model=networks, n=st.integers(1, 12))
def test_writing_back_what_was_read_changes_nothing(model, n) -> None:
    network = Network(model).double()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    engine = Products(network, images(n, model.seed), torch.float64)
    theta = engine.read(network)
    total = sum(float(value.square().sum()) for value in before.values())
    assert float(theta.square().sum()) == pytest.approx(total, rel=1e-10)
    engine.write(theta, network)
    for name, value in network.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=1e-10, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(model=networks, n=st.integers(2, 8), alpha=st.sampled_from([None, 3.0]))
def test_gram_matrix_is_that_of_the_gradients(model, n, alpha) -> None:
    if model.outputs != 1:
        return
    network = Network(model).double()
    engine = Products(network, images(n, model.seed), torch.float64)
    engine.sharpness = alpha
    theta = engine.read(network)
    engine.forward(theta)
    gram, moments = engine.gram()
    rows = torch.stack([engine.backward(e[:, None]).clone() for e in torch.eye(n, dtype=torch.float64)])
    torch.testing.assert_close(gram, rows @ rows.T, rtol=1e-8, atol=1e-11)
    torch.testing.assert_close(moments, rows @ theta, rtol=1e-8, atol=1e-11)


def test_the_span_keeps_every_direction_of_the_data_and_no_other() -> None:
    x = torch.randn(6, 20).double()
    x = torch.cat([x, x[:3] + x[3:]])  # nine samples of rank six
    span = span_of(x)
    assert span.basis.shape == (6, 20)
    torch.testing.assert_close(span.pixels(span.coordinates), x)
    torch.testing.assert_close(span.basis @ span.basis.T, torch.eye(6).double())
    assert span_of(torch.randn(30, 20)).basis is None  # more samples than pixels: nothing to gain
    assert pixel_span(x).basis is None


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        span_of(torch.empty(0, 4))


@settings(max_examples=40, deadline=None)
@given(model=networks, n=st.integers(1, 12))
def test_shrinking_keeps_the_outputs_and_never_adds_norm(model, n) -> None:
    network = Network(model).double()
    engine = Products(network, images(n, model.seed), torch.float64)
    theta = engine.read(network)
    outputs = engine.forward(theta).clone()
    smaller = shrink(engine, theta)
    torch.testing.assert_close(engine.forward(smaller), outputs, rtol=1e-5, atol=1e-8)
    assert float(smaller.norm()) <= float(theta.norm()) * (1 + 1e-9)


def test_shrinking_forgets_a_random_start_at_once() -> None:
    network = Network(ModelSettings((2, 4, 4), 1, (200, 200), first_layer_scale=None)).double()
    engine = Products(network, images(5, 0), torch.float64)
    theta = engine.read(network)
    assert float(shrink(engine, theta).norm()) < 0.4 * float(theta.norm())
