"""The certificate against plain autograd and scipy, and what it says about known networks."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from reconlib.data import Task, load_task
from reconlib.losses import get_loss
from reconlib.models import ModelSettings, Network
from reconlib.training import Certificate, TrainSettings, train
from reconlib.training.certificate import certify, error, homogeneity, margin_directions
from reconlib.training.kinks import kink_masks, subgradient_residual
from reconlib.training.linearised import Linearised
from reconlib.training.multipliers import nonnegative
from reconlib.training.products import Products


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task("fashion_mnist_mini", "odd_vs_even", per_class=8, test=100)


@pytest.fixture(scope="module")
def decayed(task):
    model = ModelSettings((1, 28, 28), 1, (60, 60), first_layer_scale=None)
    return train(model, task, TrainSettings(weight_decay=1e-3), progress=False)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 12), rows=st.integers(1, 20), shift=st.floats(-1, 1), seed=st.integers(0, 999))
def test_multipliers_are_the_non_negative_least_squares_solution(n, rows, shift, seed) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(shift, 1, (rows, n)), rng.normal(0.5, 1, rows)
    ours = nonnegative(torch.tensor(a.T @ a), torch.tensor(a.T @ b)).numpy()
    _, best = nnls(a, b)
    assert (ours >= 0).all()
    assert np.linalg.norm(a @ ours - b) == pytest.approx(best, rel=1e-5, abs=1e-5)


def test_multipliers_of_repeated_gradients_and_of_nothing() -> None:
    gram = torch.ones(4, 4).double()  # four times the same gradient: any split is a solution
    assert float(nonnegative(gram, torch.ones(4).double()).sum()) == pytest.approx(1, rel=1e-6)
    assert float(nonnegative(gram, -torch.ones(4).double()).sum()) == 0


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("conv", [False, True])
def test_fitted_residual_is_that_of_stacked_gradients(outputs, conv) -> None:
    generator = torch.Generator().manual_seed(0)
    front = {"kernel": 2, "channels": 2} if conv else {}
    network = Network(ModelSettings((1, 4, 4), outputs, (9, 7), first_layer_scale=None, **front)).double()
    x = torch.randn(6, 1, 4, 4, generator=generator).double()
    y = torch.randint(0, max(2, outputs), (6,), generator=generator)
    engine = Products(network, x, torch.float64)
    at = Linearised(engine, engine.read(network))
    torch.testing.assert_close(at.outputs, network(x).detach(), rtol=1e-10, atol=1e-12)
    directions, margins = margin_directions(at.outputs, y)
    grams, moments = at.grams(directions, at.slopes(None))
    multipliers = nonnegative(grams.sum(0), moments.sum(0))
    layers = list(range(len(network.layers)))
    total, by_layer = at.kkt(grams, moments, multipliers, layers)

    out = network(x)
    if outputs == 1:
        plain = (2 * y - 1) * out[:, 0]
    else:
        own = torch.nn.functional.one_hot(y, outputs).bool()
        plain = out[own] - out.masked_fill(own, -math.inf).max(1).values
    torch.testing.assert_close(margins, plain.detach())
    parameters = list(network.parameters())
    rows = []
    for margin in plain:
        gradients = torch.autograd.grad(margin, parameters, retain_graph=True)
        rows.append(torch.cat([g.flatten() for g in gradients]))
    theta = torch.cat([p.detach().flatten() for p in parameters])
    lam, best = nnls(torch.stack(rows).T.numpy(), theta.numpy())
    assert total == pytest.approx(best / float(theta.norm()), rel=1e-6)
    last = parameters[-1].numel()
    left = theta[-last:] - torch.tensor(lam) @ torch.stack(rows)[:, -last:]
    assert by_layer[-1] == pytest.approx(float(left.norm() / theta[-last:].norm()), rel=1e-4)


def test_kink_slopes_lower_the_residual_of_a_decayed_network(task, decayed) -> None:
    loss, decay = get_loss("logistic"), decayed.settings.weight_decay
    engine = Products(decayed.network, task.x, torch.float64)
    at = Linearised(engine, engine.read(decayed.network))
    derivatives = loss.derivatives(at.outputs, loss.targets(task.y, 1)) / len(task.y)
    hard, _ = at.residual(derivatives, decay, at.slopes(None))
    assert hard == pytest.approx(decayed.certificate.closed_form.total, rel=1e-9)
    free, slopes = subgradient_residual(at, derivatives, decay, at.slopes(300.0), steps=30)
    assert free < 0.5 * hard and free < 0.05
    again, _ = at.residual(derivatives, decay, slopes)
    assert again == pytest.approx(free, rel=1e-6)  # attained by slopes that the subdifferential allows
    for slope, own, mask in zip(slopes, at.slopes(None), kink_masks(at), strict=True):
        assert float(slope.min()) >= 0 and float(slope.max()) <= 1
        assert torch.equal(slope[~mask], own[~mask])


def test_certificate_survives_json(decayed) -> None:
    certificate = decayed.certificate
    assert Certificate.from_dict(json.loads(json.dumps(certificate.to_dict()))) == certificate
    assert certificate.residual == certificate.closed_form.total


def test_certificate_describes_an_untrained_network_as_not_stationary(task) -> None:
    model = ModelSettings((1, 28, 28), 1, (30, 30), first_layer_scale=None)
    certificate = certify(Network(model), task, TrainSettings(weight_decay=1e-3), Network(model))
    assert certificate.closed_form.total > 0.9
    assert certificate.start_share == pytest.approx((1, 1, 1), abs=1e-6)
    assert len(certificate.notes) == 3
    assert certificate.train_loss == pytest.approx(math.log(2), rel=0.05)
    assert certificate.homogeneity < 1e-12


def test_homogeneity_check_notices_later_biases(task) -> None:
    network = Network(ModelSettings((1, 28, 28), 1, (30, 30), "all", None))
    assert homogeneity(network, task.x) > 1e-3


def test_flow_certificate_names_the_layer_that_keeps_its_start(task) -> None:
    model = ModelSettings((1, 28, 28), 1, (400, 400))
    certificate = train(model, task, TrainSettings(), progress=False).certificate
    assert certificate.closed_form is None
    assert certificate.residual == certificate.fitted.total < 0.5
    assert certificate.layers == (0, 2) and "layer 2" in certificate.notes[0]
    assert certificate.log_loss < -200 and certificate.train_error == 0
    assert 0 < certificate.on_margin <= 1
    assert certificate.multipliers_on_margin > certificate.on_margin


def test_errors_are_counted_by_class(task) -> None:
    outputs = torch.tensor([[1.0], [-1.0], [2.0]])
    assert error(outputs, torch.tensor([1, 1, 1])) == pytest.approx(1 / 3)
    assert error(torch.eye(3), torch.tensor([0, 1, 1])) == pytest.approx(1 / 3)
