"""check_model, overview, the row space, least-squares multipliers, priors and baselines."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import nn

from reconlib.attack import (
    AttackSettings,
    ModelError,
    check_model,
    first_layer_rows,
    maximise_output,
    overview,
)  # fmt: skip
from reconlib.attack.multipliers import solve_multipliers
from reconlib.attack.priors import range_gradient, variation_gradient
from reconlib.attack.rowspace import row_space, spectrum
from reconlib.models import MLP, ConvNet


def broken() -> nn.Module:
    network = MLP((6,), (5,), 1)
    with torch.no_grad():
        network.layers[1].weight[0, 2] = math.nan
    return network


def zeroed() -> nn.Module:
    network = MLP((6,), (5,), 1)
    nn.init.zeros_(network.layers[1].weight)
    return network


def between(module: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), module, nn.Linear(5, 1))


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x), x


NORMALISED = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1))


@pytest.mark.parametrize(
    "model,layer,why,remedy",
    [
        (broken(), "layers.1.weight", "not finite", "Train again"),
        (zeroed(), "layers.1.weight", "zero everywhere", "smaller weight decay"),
        (nn.Sequential(nn.ReLU()), "model", "no parameters", "trained network"),
        (NORMALISED, "1 (BatchNorm1d)", "over the batch", "model.eval()"),
        (between(nn.Dropout(0.5)), "1 (Dropout)", "at random", "eval"),
        (between(nn.Tanh()), "1 (Tanh)", "not homogeneous", "'general'"),
        (between(nn.LayerNorm(5)), "1 (LayerNorm)", "homog", "general"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), "input", "cannot be found", "input_shape="),
        (Pair(), "model", "not (2, outputs)", "wrap"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_refusals_name_layer_reason_and_remedy(model, layer: str, why: str, remedy: str) -> None:
    with pytest.raises(ModelError) as error:
        check_model(model.train(), "binary")
    for part in (layer, why, remedy):
        assert part in str(error.value)


def test_a_wrong_input_shape_is_named() -> None:
    with pytest.raises(ModelError, match=r"\(7,\).*input_shape"):
        check_model(MLP((6,), (5,), 1), "binary", (7,))


@pytest.mark.parametrize(
    "model,equation,caveat",
    [
        (MLP((6,), (5, 4), 1, bias="all"), "binary", "layers.1.bias, layers.2.bias"),
        (NORMALISED, "general", "1 (BatchNorm1d)"),
    ],
)
def test_attacks_that_make_sense_run_with_a_caveat(model, equation: str, caveat: str) -> None:
    report = check_model(model.eval(), equation)
    assert any(caveat in text for text in report.caveats)


def test_smooth_activations_are_fine_with_weight_decay() -> None:
    report = check_model(between(nn.Tanh()), "general")
    assert report.path == "generic" and report.degree is None and report.caveats == ()


@pytest.mark.parametrize(
    "model,path,degree",
    [
        (MLP((6,), (5, 4), 1), "mlp", 3),
        (MLP((6,), (), 1), "mlp", 1),
        (ConvNet((1, 5, 5), 3, 2, (4,)), "conv", 3),
        (
            nn.Sequential(nn.Linear(6, 5, bias=False), nn.LeakyReLU(), nn.Linear(5, 1, bias=False)),
            "generic",
            2,
        ),
    ],
)
def test_path_and_degree_of_homogeneity(model, path: str, degree: int) -> None:
    report = check_model(model, "binary")
    assert report.path == path and report.degree == pytest.approx(degree)


@pytest.mark.parametrize("noise", [0.0, 1e-4])
@pytest.mark.parametrize("n", [5, 40, 90])
def test_rank_reveals_the_number_of_samples(n: int, noise: float) -> None:
    generator = torch.Generator().manual_seed(n)
    weight = torch.randn(120, n, generator=generator) @ torch.randn(n, 300, generator=generator) * 0.01
    weight += noise * torch.randn(120, 300, generator=generator)
    found, _ = spectrum(weight)
    assert found.rank == n and found.gap > 1.5 and found.revealing


def test_an_untrained_layer_shows_no_data() -> None:
    found, _ = spectrum(torch.randn(200, 500))
    assert found.rank <= 3
    assert found.noise == pytest.approx(math.sqrt(200) + math.sqrt(500), rel=0.05)


def test_row_space_has_orthonormal_rows_and_a_limit() -> None:
    space = row_space(torch.randn(8, 20), 30)
    assert space.dimension == 8
    assert torch.allclose(space.basis @ space.basis.T, torch.eye(8), atol=1e-5)


@pytest.mark.parametrize("least", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(4))
def test_least_squares_multipliers_agree_with_scipy(least: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    g = torch.randn(30, 12, generator=generator, dtype=torch.float64) * (
        10 ** torch.randn(12, generator=generator)
    )
    theta = torch.randn(30, generator=generator, dtype=torch.float64)
    found = solve_multipliers(g.T @ g, g.T @ theta, least=least, ridge=0.0)
    expected, _ = scipy.optimize.nnls(g.numpy(), (theta - least * g.sum(1)).numpy())
    assert np.allclose(found.numpy(), expected + least, atol=1e-7)


def test_free_multipliers_are_plain_least_squares() -> None:
    g, theta = torch.randn(20, 6, dtype=torch.float64), torch.randn(20, dtype=torch.float64)
    found = solve_multipliers(g.T @ g, g.T @ theta, least=None, ridge=0.0)
    assert torch.allclose(found, torch.linalg.lstsq(g, theta[:, None]).solution[:, 0])


def test_priors_have_the_gradients_of_what_they_say() -> None:
    x = (1.5 * torch.randn(2, 3 * 4 * 5, dtype=torch.float64)).requires_grad_()
    (expected,) = torch.autograd.grad((x.abs() - 1).clamp_min(0).square().sum(), x)
    assert torch.allclose(range_gradient(x.detach()), expected)
    images = x.reshape(2, 3, 4, 5)
    down = images[..., 1:, :-1] - images[..., :-1, :-1]
    right = images[..., :-1, 1:] - images[..., :-1, :-1]
    (expected,) = torch.autograd.grad((down**2 + right**2 + 1e-6).sqrt().sum(), x)
    assert torch.allclose(variation_gradient(x.detach(), (3, 4, 5)), expected)


def test_overview_counts_and_prints() -> None:
    network = MLP((3, 8, 8), (60, 20), 1)
    with torch.no_grad():
        network.layers[0].weight.add_(torch.randn(60, 10) @ torch.randn(10, 192))
    seen = overview(network, AttackSettings(candidates=None, steps=10, restarts=2))
    assert seen.samples == 10 and seen.candidates == 20 and seen.unknowns == 20 * 11
    assert seen.parameters == sum(p.numel() for p in network.parameters())
    assert seen.parameters_per_unknown == pytest.approx(seen.parameters / (192 * 10))
    assert seen.degree == pytest.approx(3) and seen.memory > 0 and seen.seconds > 0
    assert "12,8" in f"{seen.parameters:,}" and f"{seen.parameters:,}" in str(seen)


def test_overview_of_a_convolution_says_that_it_searches_in_pixels() -> None:
    seen = overview(ConvNet((1, 6, 6), 3, 2, (5,)), AttackSettings(candidates=4), timed=False)
    assert seen.samples is None and seen.seconds is None and math.isnan(seen.parameters_per_unknown)
    assert any("pixels" in caveat for caveat in seen.caveats) and "not measured" in str(seen)


def test_rows_of_the_first_layer() -> None:
    network = MLP((1, 3, 3), (4,), 1)
    weight = network.layers[0].weight
    assert torch.equal(first_layer_rows(network).flatten(1), torch.cat([weight, -weight]))
    assert first_layer_rows(ConvNet((1, 3, 3), 3, 5, (4,))).shape == (10, 1, 3, 3)
    with pytest.raises(ValueError, match="patch"):
        first_layer_rows(ConvNet((1, 4, 4), 3, 5, (4,)))


@pytest.mark.parametrize("equation,outputs", [("binary", 1), ("multiclass", 3), ("general", 2)])
def test_maximising_the_output_does(equation: str, outputs: int) -> None:
    network = MLP((1, 4, 4), (12,), outputs, first_layer_scale=None)
    start = maximise_output(network, equation, candidates=12, steps=0)
    end = maximise_output(network, equation, candidates=12, steps=50, rate=0.1)
    assert end.shape == (12, 1, 4, 4) and float(end.abs().max()) <= 1
    with torch.no_grad():
        before, after = network(start), network(end)
    label = torch.arange(12) % max(2, outputs)
    if equation == "multiclass":
        assert float((after.argmax(1) == label).float().mean()) > 0.9
    elif equation == "binary":
        assert bool((((after - before)[:, 0] > 0) == (label == 1)).all())
    else:
        up = torch.arange(12) % 2 == 0
        assert bool(((after - before).sum(1) > 0)[up].all()) and bool(
            ((after - before).sum(1) < 0)[~up].all()
        )
