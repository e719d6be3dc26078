"""Networks whose weights are built from known images: the attack must return those images."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reconlib.attack import AttackSettings, reconstruct
from reconlib.attack.problem import build_problem
from reconlib.models import MLP, Network

EXACT = {
    "dtype": "float64", "whitening": 0.0, "spread": 0.0, "normalise": None, "range_weight": 0.0,
    "start_scale": 0.1, "rate": 0.05, "multiplier_rate": 0.02, "multiplier_min": 0.01,
}  # fmt: skip


def planted_two_layers(
    n: int = 4, d: int = 12, neurons_each: int = 6, seed: int = 0
) -> tuple[Network, Tensor, Tensor, Tensor]:
    """θ = Σ λ_i s_i ∇Φ(x_i) exactly: network, images (n, d), signs and multipliers (n,).

    The images are corners of a simplex, so that a neuron w = λ v x_i, b = λ v is active on x_i alone. Its
    outgoing weight is s_i v; the last layer's equation then reads v = λ² v (‖x_i‖² + 1).
    """
    generator = torch.Generator().manual_seed(seed)
    corners = torch.linalg.qr(torch.randn(d, n, generator=generator, dtype=torch.float64))[0].T
    x = 3.5 * (corners - corners.mean(0))
    signs = (2 * (torch.arange(n) % 2) - 1).double()
    multipliers = 1 / (x.square().sum(1) + 1).sqrt()
    owner = torch.arange(n * neurons_each) % n
    v = 0.5 + torch.rand(len(owner), generator=generator, dtype=torch.float64)
    network = MLP((d,), (len(owner),), 1).double()
    with torch.no_grad():
        network.layers[0].weight.copy_((multipliers[owner] * v)[:, None] * x[owner])
        network.layers[0].bias.copy_(multipliers[owner] * v)
        network.layers[1].weight.copy_((signs[owner] * v)[None])
    return network, x, signs, multipliers


def errors(x: Tensor, candidates: Tensor) -> Tensor:
    """Relative distance from each image to its nearest candidate."""
    return (x[:, None] - candidates.double().flatten(1)).norm(dim=2).min(1).values / x.norm(dim=1)


@pytest.mark.parametrize("rank", [None, "auto"])
@pytest.mark.parametrize("normalise", [None, 50.0])
def test_the_truth_solves_the_planted_equation(rank, normalise) -> None:
    network, x, _, multipliers = planted_two_layers()
    settings = AttackSettings(candidates=4, rank=rank, normalise=normalise, dtype="float64")
    problem = build_problem(network, settings)
    l = (multipliers / problem.multiplier_unit())[:, None]
    loss, gradient, gradient_l = problem.stationarity(problem.space.from_pixels(x), l, problem.labels, 60.0)
    assert float(loss) < 1e-12 * problem.stationarity.target
    assert float(gradient.norm()) < 1e-5 and float(gradient_l.norm()) < 1e-5


@pytest.mark.parametrize("equation", ["binary", "general"])
def test_two_layers_give_their_images_back(equation: str) -> None:
    network, x, signs, multipliers = planted_two_layers()
    settings = AttackSettings(equation=equation, candidates=4, steps=1500, restarts=4, alpha=(5, 50), **EXACT)
    found = reconstruct(network, settings, progress=False)
    best = found.run == found.residual.argmin()
    assert float(found.residual.min()) < 1e-4
    assert float(errors(x, found.candidates[best]).max()) < 0.03
    expected = multipliers if equation == "binary" else multipliers * signs
    assert torch.allclose(found.multipliers[best].double().sort().values, expected.sort().values, atol=0.03)


def test_multipliers_by_least_squares_give_the_images_back() -> None:
    network, x, _, multipliers = planted_two_layers()
    settings = AttackSettings(
        candidates=4, steps=800, restarts=2, rank=None, alpha=(5, 50), multipliers="nnls", solve_every=5,
        **{**EXACT, "start_scale": 0.3},
    )  # fmt: skip
    found = reconstruct(network, settings, progress=False)
    best = found.run == found.residual.argmin()
    assert float(errors(x, found.candidates[best]).max()) < 0.03
    assert torch.allclose(found.multipliers[best].double(), multipliers, atol=0.03)


@pytest.mark.parametrize("outputs", [1, 3])
def test_an_affine_network_of_one_sample_is_its_image(outputs: int) -> None:
    """W = ℓ' xᵀ and b = ℓ', whatever the loss was: one image, found to rounding."""
    x = torch.randn(10, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    slopes = torch.tensor([0.8, -0.5, 1.1], dtype=torch.float64)[:outputs]
    network = MLP((10,), (), outputs).double()
    with torch.no_grad():
        network.layers[0].weight.copy_(slopes[:, None] * x)
        network.layers[0].bias.copy_(slopes)
    settings = AttackSettings(
        equation="general", candidates=1, steps=1500, rank=None, restarts=6, seed=1, **EXACT
    )
    found = reconstruct(network, settings, progress=False)
    best = found.run == found.residual.argmin()  # a start with a slope of the wrong sign cannot change it
    assert float(errors(x[None], found.candidates[best]).max()) < 1e-4
    assert torch.allclose(found.multipliers[best].double().flatten(), slopes, atol=1e-4)


def test_a_start_at_the_truth_stays_there() -> None:
    network, x, _, _ = planted_two_layers()
    labels = torch.arange(4) % 2
    settings = AttackSettings(
        candidates=4, steps=60, alpha=(50, 50), start_noise=0.0, multipliers="nnls", solve_every=1,
        **{**EXACT, "rate": 1e-3},
    )  # fmt: skip
    found = reconstruct(network, settings, start=x, start_labels=labels, progress=False)
    assert float(errors(x, found.candidates).max()) < 1e-3
    assert float(found.residual) < 1e-8
