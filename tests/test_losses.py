"""Losses: derivatives against autograd, log forms against exact arithmetic, errors that help."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from reconlib.losses import LOSSES, get_loss, log_loss, log_loss_weights

REFERENCE = {
    "logistic": lambda o, y: F.binary_cross_entropy_with_logits(o[:, 0], y.double()),
    "cross_entropy": F.cross_entropy,
    "squared": lambda o, y: F.mse_loss(o[:, 0], 2 * y.double() - 1),
    "power": lambda o, y: (o[:, 0] - (2 * y.double() - 1)).abs().pow(2.5).mean(),
    "huber": lambda o, y: F.huber_loss(o[:, 0], 2 * y.double() - 1),
}


def draw(name: str, n: int, seed: int, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs = 4 if name == "cross_entropy" else 1
    y = torch.randint(0, max(outputs, 2), (n,), generator=generator)
    return scale * torch.randn(n, outputs, generator=generator, dtype=torch.float64), y


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 9), seed=st.integers(0, 1000), scale=st.floats(0.1, 8.0))
def test_values_and_derivatives_agree_with_torch(name, n, seed, scale) -> None:
    outputs, y = draw(name, n, seed, scale)
    loss = get_loss(name)
    targets = loss.targets(y, outputs.shape[1])
    outputs.requires_grad_()
    reference = REFERENCE[name](outputs, y)
    torch.testing.assert_close(loss.values(outputs, targets).mean(), reference, rtol=1e-10, atol=1e-14)
    (expected,) = torch.autograd.grad(reference, outputs)
    actual = loss.derivatives(outputs.detach(), targets) / n
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if not loss.separable])
def test_curvatures_agree_with_autograd(name) -> None:
    outputs, y = draw(name, 50, 0, 1.0)
    loss = get_loss(name)
    targets = loss.targets(y, 1)
    outputs.requires_grad_()
    (first,) = torch.autograd.grad(loss.values(outputs, targets).sum(), outputs, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), outputs)
    expected = second if name != "huber" else second.clamp_min(1e-3)
    torch.testing.assert_close(loss.curvatures(outputs.detach(), targets), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "cross_entropy"])
def test_soft_margins_reproduce_the_loss_and_their_own_gradient(name) -> None:
    outputs, y = draw(name, 20, 1, 3.0)
    loss = get_loss(name)
    targets = loss.targets(y, outputs.shape[1])
    outputs.requires_grad_()
    margin, gradient = loss.soft_margin(outputs, targets)
    torch.testing.assert_close(F.softplus(-margin), loss.values(outputs, targets))
    (expected,) = torch.autograd.grad(margin.sum(), outputs)
    torch.testing.assert_close(gradient.detach(), expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-50, 3000), min_size=1, max_size=6))
def test_log_loss_is_exact_where_floats_underflow(margins) -> None:
    with mpmath.workdps(40):
        terms = [mpmath.log1p(mpmath.exp(-mpmath.mpf(m))) for m in margins]
        exact = mpmath.log(mpmath.fsum(terms) / len(terms))
        weights = [1 / (1 + mpmath.exp(mpmath.mpf(m))) / (len(margins) * mpmath.exp(exact)) for m in margins]
    tensor = torch.tensor(margins, dtype=torch.float64)
    assert float(log_loss(tensor)) == pytest.approx(float(exact), rel=1e-12, abs=1e-12)
    assert log_loss_weights(tensor).tolist() == pytest.approx(
        [float(w) for w in weights], rel=1e-9, abs=1e-300
    )


def test_log_loss_of_equal_margins_is_minus_the_margin() -> None:
    assert float(log_loss(torch.full((7,), 5000.0, dtype=torch.float64))) == -5000.0


def test_several_outputs_get_plus_one_at_the_class_and_minus_one_elsewhere() -> None:
    targets = get_loss("squared").targets(torch.tensor([2, 0]), 3)
    assert targets.tolist() == [[-1, -1, 1], [1, -1, -1]]


def test_unknown_losses_and_wrong_shapes_are_explained() -> None:
    with pytest.raises(ValueError, match="logistic, cross_entropy, squared, power, huber"):
        get_loss("hinge")
    with pytest.raises(ValueError, match="cross_entropy"):
        get_loss("logistic").targets(torch.tensor([0, 1]), 3)
    with pytest.raises(ValueError, match="logistic"):
        get_loss("cross_entropy").targets(torch.tensor([0, 1]), 1)
    with pytest.raises(ValueError, match="labels 0 and 1"):
        get_loss("squared").targets(torch.tensor([0, 2]), 1)


def test_the_huber_loss_is_linear_beyond_one() -> None:
    loss = get_loss("huber")
    outputs, targets = torch.tensor([[4.0]]), torch.tensor([[1.0]])
    assert float(loss.values(outputs, targets)) == pytest.approx(2.5)
    assert float(loss.derivatives(outputs, targets)) == 1.0
    assert math.isclose(float(loss.curvatures(outputs, targets)), 1e-3, rel_tol=1e-6)
