"""Differences of neurons: planted images come back exactly, and the blocks agree with two plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from reconlib.attack import AttackSettings, differences, neuron_differences, reconstruct
from reconlib.attack.differences import ALIVE, PLAUSIBLE
from reconlib.experiments import Experiment, run
from reconlib.models import MLP, ConvNet, Network
from reconlib.profiles import tiny
from reconlib.rates import operating_point


def planted(n: int, d: int, hidden: tuple[int, ...], seed: int) -> tuple[Network, Tensor, Tensor]:
    """A network whose neurons come in chains: each next one sees one image more; images and multipliers.

    The rows are v_j Σ_i s_ij μ_i (x_i, 1), whatever slopes the network itself would give the images.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    x = 0.5 * (2 * draw(n, d) - 1)
    multipliers = (0.2 + draw(n)) * (1 - 2 * (torch.arange(n) % 2))
    network = MLP((d,), hidden, 1).double()
    with torch.no_grad():
        for layer in network.layers[1:]:
            layer.weight.copy_(draw(*layer.weight.shape) + 0.1)
        above = network.layers[-1].weight
        for layer in reversed(network.layers[1:-1]):
            above = above @ layer.weight
        slopes = torch.stack([(torch.arange(n) <= j % n).double() for j in range(hidden[0])])
        rows = above.T * (slopes * multipliers) @ torch.cat([x, torch.ones(n, 1)], 1)
        network.layers[0].weight.copy_(rows[:, :-1])
        network.layers[0].bias.copy_(rows[:, -1])
    return network, x, multipliers.abs()


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.integers(12, 30), st.sampled_from([(), (3,), (4, 3)]), st.integers(0, 99))
def test_planted_images_come_back(n: int, d: int, later: tuple[int, ...], seed: int) -> None:
    network, x, multipliers = planted(n, d, (2 * n, *later), seed)
    found, sizes, neurons = neuron_differences(network, 100)
    assert found.shape[1:] == (d,) and len(found) == len(sizes) == len(neurons)
    for image, multiplier in zip(x[1:], multipliers[1:], strict=True):  # no two rows differ by the first
        distance = (found.double() - image).norm(dim=1)
        nearest = int(distance.argmin())
        assert float(distance[nearest]) < 1e-5 * float(image.norm())
        assert float(sizes[nearest]) == pytest.approx(float(multiplier), rel=1e-4)


def plain(network: Network, neighbours: int) -> list[Tensor]:
    """The same images by two loops over neurons."""
    weights = [layer.weight.detach().double() for layer in network.layers]
    bias = network.layers[0].bias
    above = weights[-1]
    for weight in reversed(weights[1:-1]):
        above = above @ weight
    rows = []
    for j, row in enumerate(weights[0]):
        full = row if bias is None else torch.cat([row, bias.detach().double()[j : j + 1]])
        rows.append((full, above[:, j]))
    largest = max(float(row.norm()) for row, _ in rows)
    live = [
        (row / v.norm(), v / v.norm()) for row, v in rows if row.norm() > ALIVE * largest and v.norm() > 0
    ]
    found: dict[tuple[int, int], tuple[float, Tensor]] = {}
    for j, (a, v) in enumerate(live):
        near = []
        for k, (b, w) in enumerate(live):
            sign = torch.sign(v @ w)
            difference = a - sign * b
            relative = float(difference.norm() / (a.norm() + b.norm()))
            if j == k or relative <= 1e-6:
                continue
            cost = relative + math.sqrt(max(0.0, 2 - 2 * abs(float(v @ w))))
            if bias is None:
                image = 0.25 * math.sqrt(len(difference)) * difference / difference.norm()
            else:
                image = difference[:-1] / difference[-1]
                if not PLAUSIBLE[0] < float(image.square().mean().sqrt()) < PLAUSIBLE[1]:
                    continue
            near.append((cost, k, image))
        for cost, k, image in sorted(near, key=lambda entry: entry[0])[:neighbours]:
            # A pair's image is the same from both ends, but for the sign where there is no bias.
            found.setdefault((min(j, k), max(j, k)), (cost, image if j < k or bias is not None else -image))
    return [image for _, image in sorted(found.values(), key=lambda entry: entry[0])]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["first", "none"]), st.integers(1, 4), st.sampled_from([(7,), (9, 5)]),
    st.integers(1, 10), st.integers(0, 99), st.sampled_from([1, 4, 512]),
)  # fmt: skip
def test_blocks_agree_with_plain_loops(bias, outputs, hidden, neighbours, seed, block) -> None:
    network = MLP((6,), hidden, outputs, bias=bias, first_layer_scale=None, seed=seed).double()
    with torch.no_grad():
        network.layers[0].weight[0] = 0  # a dead neuron is no pair's
        if bias == "first":
            network.layers[0].bias[0] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differences, "_BLOCK", block)
        found, _, neurons = neuron_differences(network, neighbours)
    expected = plain(network, neighbours)
    assert len(found) == len(neurons) == len(expected) * (1 if bias == "first" else 2)
    assert not bool((neurons == 0).any())
    if bias == "none":  # with both signs, and which of them comes first says nothing
        found = (
            found[: len(expected)]
            * torch.sign((found[: len(expected)] * torch.stack(expected)).sum(1))[:, None]
        )
    if expected:
        torch.testing.assert_close(found.double(), torch.stack(expected), rtol=1e-4, atol=1e-5)


def test_models_without_neurons_that_see_an_image_are_refused() -> None:
    for model in (ConvNet((1, 6, 6), 3, 4, (5,)), MLP((6,), (), 1), nn.Bilinear(2, 2, 1)):
        with pytest.raises(ValueError, match="at least two fully connected layers"):
            neuron_differences(model)
    with pytest.raises(ValueError, match="neighbours must be a whole number ≥ 1, not 0"):
        neuron_differences(MLP((6,), (4,), 1), 0)
    with pytest.raises(ValueError, match="differences must be a whole number ≥ 0"):
        AttackSettings(differences=-1)


@pytest.mark.parametrize("equation, outputs", [("binary", 1), ("cross_entropy", 3), ("general", 2)])
def test_they_join_the_pool_and_leave_the_search_alone(equation: str, outputs: int, tmp_path) -> None:
    network = MLP((1, 3, 4), (15, 10), outputs, first_layer_scale=None)
    chosen = AttackSettings(equation=equation, candidates=6, steps=3, rank=8)
    alone = reconstruct(network, chosen, progress=False, checkpoint=tmp_path / "a.safetensors")
    both = AttackSettings(equation=equation, candidates=6, steps=3, rank=8, differences=2)
    # The finished restart is taken over: what is pooled with it does not belong to the search.
    found = reconstruct(network, both, progress=False, checkpoint=tmp_path / "a.safetensors")
    images, sizes, _ = neuron_differences(network, 2)
    assert torch.equal(found.candidates, torch.cat([alone.candidates, images]))
    assert found.run.tolist() == [0] * 6 + [-1] * len(images)
    assert torch.equal(found.multipliers[:6], alone.multipliers)
    assert found.multipliers.shape[1:] == alone.multipliers.shape[1:]
    torch.testing.assert_close(found.multipliers[6:].reshape(len(images), -1).sum(1), sizes)
    with torch.no_grad():
        out = network(images).reshape(len(images), -1)
    own = (out[:, 0] > 0).long() if outputs == 1 else out.argmax(1)
    assert found.labels is None if equation == "general" else torch.equal(found.labels[6:], own)


def test_neurons_that_are_all_alike_add_nothing_and_lose_nothing() -> None:
    network = MLP((1, 3, 4), (2,), 1, first_layer_scale=None)
    with torch.no_grad():
        for parameter, axis in zip(network.parameters(), (0, 0, 1), strict=True):
            parameter.copy_(parameter.narrow(axis, 0, 1).expand_as(parameter).clone())
    assert neuron_differences(network).images.shape == (0, 1, 3, 4)
    found = reconstruct(network, AttackSettings(candidates=4, steps=2, differences=3), progress=False)
    assert len(found.candidates) == len(found.multipliers) == len(found.labels) == 4


def test_a_convolution_is_searched_alone_and_says_so() -> None:
    settings = AttackSettings(candidates=4, steps=2, differences=5)
    found = reconstruct(ConvNet((1, 6, 6), 3, 4, (5,)), settings, progress=False)
    assert len(found.candidates) == 4
    assert any("no differences of neurons" in caveat for caveat in found.caveats)


def test_a_trained_network_gives_real_images_away(tmp_path) -> None:
    """Training images are nearer to the differences than held-out images of the same kind."""
    outcome = run(tiny(Experiment(per_class=20, hidden=(200, 200), weight_decay=1e-3)), cache=tmp_path)
    judged = outcome.controls.controls
    inside, outside = (-judged[name].distance for name in ("differences", "differences_held_out"))
    point = operating_point(inside, outside, 0.05)
    assert point.true_positive_interval[0] > 0.05
