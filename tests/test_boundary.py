"""Distances and margins on networks whose outputs are known, and multipliers against autograd."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, softplus

from reconlib.boundary import boundary


class Outputs(nn.Module):
    """Returns its input: outputs are chosen by the test."""

    def forward(self, x):
        return x.flatten(1)


def test_binary_by_hand():
    x = torch.tensor([2.0, -3.0, 0.5, 1.0]).view(-1, 1, 1, 1)
    result = boundary(Outputs(), x, torch.tensor([1, 0, 0, 1]))
    assert result.distance.tolist() == [2.0, 3.0, -0.5, 1.0]
    assert result.margin == 1.0 and result.errors == 0.25
    assert result.on_margin(0.1).tolist() == [False, False, True, True]
    assert result.on_margin(1.0).tolist() == [True, False, True, True]


def test_binary_multipliers_are_the_loss_derivative():
    outputs = torch.randn(
        9, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    y = torch.arange(9) % 2
    softplus(-(2 * y - 1) * outputs[:, 0]).sum().backward()
    result = boundary(Outputs(), outputs.detach(), y)
    torch.testing.assert_close(result.log_multiplier.exp(), outputs.grad[:, 0].abs())


def test_multiclass_distance_and_multipliers():
    outputs = torch.randn(
        9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()
    y = torch.arange(9) % 4
    cross_entropy(outputs, y, reduction="sum").backward()
    result = boundary(Outputs(), outputs.detach(), y, "multiclass", batch=2)
    values = outputs.detach()
    for i in range(9):
        rest = [float(values[i, j]) for j in range(4) if j != y[i]]
        assert float(result.distance[i]) == pytest.approx(float(values[i, y[i]]) - max(rest))
    torch.testing.assert_close(result.log_multiplier.exp(), -outputs.grad.gather(1, y[:, None])[:, 0])


def test_multipliers_survive_losses_below_the_smallest_float():
    x = torch.tensor([[900.0], [900.0], [-901.0]])
    result = boundary(Outputs(), x, torch.tensor([1, 1, 0]))
    weights = torch.tensor([1.0, 1.0, torch.exp(torch.tensor(-1.0))], dtype=torch.float64)
    assert result.effective_support == pytest.approx(
        float(weights.sum() ** 2 / weights.square().sum()), rel=1e-6
    )


def test_regression_margin_is_the_target():
    x = torch.tensor([[0.9], [-0.8], [0.2]])
    result = boundary(Outputs(), x, torch.tensor([1, 0, 0]), "regression")
    torch.testing.assert_close(result.distance, torch.tensor([0.9, 0.8, -0.2], dtype=torch.float64))
    assert result.margin == 1.0
    torch.testing.assert_close(
        result.log_multiplier.exp(), torch.tensor([0.1, 0.2, 1.2], dtype=torch.float64)
    )
    power = boundary(Outputs(), x, torch.tensor([1, 0, 0]), "regression", derivative=lambda e: 2.5 * e**1.5)
    assert power.effective_support < result.effective_support
    exact = boundary(Outputs(), torch.tensor([[1.0], [-1.0]]), torch.tensor([1, 0]), "regression")
    assert exact.effective_support == 0


def test_effective_support_of_equal_samples_is_their_number():
    x = torch.full((12, 1), 5.0)
    assert boundary(Outputs(), x, torch.ones(12, dtype=torch.int64)).effective_support == pytest.approx(12)


def test_edges_and_errors():
    wrong = boundary(Outputs(), torch.tensor([[1.0]]), torch.tensor([0]))
    assert wrong.margin != wrong.margin and wrong.errors == 1 and not wrong.on_margin().any()
    empty = boundary(Outputs(), torch.zeros(0, 1), torch.zeros(0, dtype=torch.int64))
    assert empty.errors == 0 and empty.effective_support == 0
    with pytest.raises(KeyError, match="binary, multiclass, regression"):
        boundary(Outputs(), torch.zeros(2, 1), torch.zeros(2), "ordinal")
    with pytest.raises(ValueError, match="one output"):
        boundary(Outputs(), torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="at least two"):
        boundary(Outputs(), torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64), "multiclass")
