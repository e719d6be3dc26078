"""Trainers on problems with known answers, and on real images."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, pairwise, product

import numpy as np
import pytest
import torch
from sklearn.svm import SVC

from reconlib.data import Task, load_task
from reconlib.losses import LOSSES, get_loss
from reconlib.models import ModelSettings, Network
from reconlib.training import DivergenceError, TrainSettings, train
from reconlib.training.first_order import FirstOrder
from reconlib.training.products import Products
from reconlib.training.run import TRAINERS, make_trainer

DECAYED = {"first_layer_scale": None}


@pytest.fixture(scope="module")
def binary() -> Task:
    return load_task("fashion_mnist_mini", "odd_vs_even", per_class=10, test=100)


@pytest.fixture(scope="module")
def multiclass() -> Task:
    return load_task("fashion_mnist_mini", "multiclass", per_class=4, classes=3, test=60)


def model_for(task: Task, hidden=(40, 40), **values) -> ModelSettings:
    return ModelSettings(tuple(task.x.shape[1:]), task.outputs, hidden, **values)


def final_theta(model: ModelSettings, task: Task, settings: TrainSettings, steps: int) -> torch.Tensor:
    """All parameters of the network after so many steps, in the network's own coordinates."""
    network, engine, trainer = make_trainer(model, task, settings.resolved(model.outputs))
    network.double()
    for _ in range(steps):
        trainer.step()
    engine.write(trainer.theta, network)
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize(
    "settings",
    [
        TrainSettings(),
        TrainSettings(trainer="paper", lr=0.05),
        TrainSettings(trainer="paper", lr=0.05, weight_decay=0.1),
        TrainSettings(trainer="sgd", batch=7, weight_decay=0.1, steps=30),
    ],
    ids=["flow", "paper", "paper-decay", "sgd-decay"],
)
def test_training_in_the_span_equals_training_over_pixels(binary, settings) -> None:
    model = model_for(binary, first_layer_scale=0.02)
    settings = replace(settings, dtype="float64", sharpness=math.inf)
    inside = final_theta(model, binary, replace(settings, space="span"), 30)
    pixels = final_theta(model, binary, replace(settings, space="pixels"), 30)
    start = torch.cat([p.detach().flatten() for p in Network(model).parameters()])
    assert float((inside - pixels).norm()) < 1e-8 * float((pixels - start).norm())


def test_papers_descent_is_plain_gradient_descent(binary) -> None:
    model = model_for(binary, first_layer_scale=0.02)
    network = Network(model).double()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, weight_decay=0.01)
    sign = 2 * binary.y.double() - 1
    for _ in range(20):
        optimiser.zero_grad()
        torch.nn.functional.softplus(-sign * network(binary.x.double())[:, 0]).mean().backward()
        optimiser.step()
    expected = torch.cat([p.detach().flatten() for p in network.parameters()])
    settings = TrainSettings(trainer="paper", lr=0.1, weight_decay=0.01)
    torch.testing.assert_close(final_theta(model, binary, settings, 20), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch", [None, 6])
def test_adam_is_torch_adam(binary, batch) -> None:
    model = model_for(binary, first_layer_scale=0.02)
    settings = TrainSettings(
        trainer="adam", lr=0.01, weight_decay=0.01, batch=batch, dtype="float64", schedule="constant"
    )
    network = Network(model).double()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=0.01)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(20, generator=generator) if batch else torch.arange(20)
    sign = 2 * binary.y.double() - 1
    steps = 4 if batch else 12
    for step in range(steps):
        rows = order[6 * step : 6 * step + 6] if batch else order
        optimiser.zero_grad()
        out = network(binary.x[rows].double())[:, 0]
        torch.nn.functional.softplus(-sign[rows] * out).mean().backward()
        optimiser.step()
    expected = torch.cat([p.detach().flatten() for p in network.parameters()])
    torch.testing.assert_close(final_theta(model, binary, settings, steps), expected, rtol=1e-7, atol=1e-10)


def test_mini_batches_cover_each_epoch_once(binary) -> None:
    model = model_for(binary)
    settings = TrainSettings(trainer="sgd", batch=8).resolved(1)
    _, engine, trainer = make_trainer(model, binary, settings)
    assert isinstance(trainer, FirstOrder)
    seen: list[list[int]] = []
    forward = engine.forward
    engine.forward = lambda theta, rows=None: (seen.append(rows.tolist()), forward(theta, rows))[1]
    for _ in range(6):
        trainer.step()
    assert [len(rows) for rows in seen] == [8, 8, 4, 8, 8, 4]
    assert sorted(chain(*seen[:3])) == list(range(20)) == sorted(chain(*seen[3:]))
    assert seen[:3] != seen[3:]


def test_linear_classifier_ends_at_the_support_vector_machine(binary) -> None:
    model = ModelSettings((1, 28, 28), 1, (), "first", 1e-4)
    settings = TrainSettings(target_log_loss=-3000.0, momentum=0.5, dtype="float64")
    trained = train(model, binary, settings, progress=False)
    assert trained.stopped == "target"
    layer = trained.network.layers[0]
    ours = torch.cat([layer.weight.detach().flatten(), layer.bias.detach()]).double().numpy()
    # The flow maximises the margin over weight and bias together: a machine through the origin of
    # (x, 1), so the bias is a feature here and its own intercept is left at zero by symmetric labels.
    x = np.hstack([binary.x.flatten(1).double().numpy(), np.ones((20, 1))])
    signs = (2 * binary.y - 1).numpy()
    judge = SVC(kernel="linear", C=1e10, tol=1e-8).fit(np.vstack([x, -x]), np.hstack([signs, -signs]))
    svm = judge.coef_[0]
    cosine = ours @ svm / np.linalg.norm(ours) / np.linalg.norm(svm)
    assert cosine > 0.99999
    margin = (signs * (x @ ours)).min() / np.linalg.norm(ours)
    best = (signs * (x @ svm)).min() / np.linalg.norm(svm)
    assert margin == pytest.approx(best, rel=1e-3)


def test_the_flow_reaches_losses_no_float_can_hold(binary, multiclass) -> None:
    for task, loss in ((binary, "logistic"), (multiclass, "cross_entropy")):
        settings = TrainSettings(loss=loss, target_log_loss=-1000.0)
        trained = train(model_for(task), task, settings, progress=False)
        assert trained.stopped == "target"
        certificate = trained.certificate
        assert certificate.log_loss <= -1000 and certificate.train_loss == 0.0
        assert certificate.train_error == 0 and certificate.margins[0] > 990
        assert all(after <= before for before, after in pairwise(trained.history["log_loss"]))
        assert 1 in certificate.layers or any("layer 2" in note for note in certificate.notes)


def test_mini_batches_come_first_and_the_flow_ends_at_the_target(multiclass) -> None:
    settings = TrainSettings(loss="cross_entropy", batch=5, target_log_loss=-30.0)
    trained = train(model_for(multiclass), multiclass, settings, progress=False)
    assert trained.stopped == "target" and trained.certificate.log_loss <= -30
    batches = [math.isnan(r) for r in trained.history["residual"]]  # the flow has a residual, a batch none
    assert batches[0] and not batches[-1] and batches == sorted(batches, reverse=True)


def test_the_limit_of_the_flow_is_stationary_in_every_layer(binary) -> None:
    settings = TrainSettings(trainer="margin", target_log_loss=-20.0, settle_steps=600)
    trained = train(model_for(binary, (100, 100)), binary, settings, progress=False)
    certificate = trained.certificate
    assert trained.stopped == "settled" and certificate.train_error == 0
    assert certificate.log_loss == pytest.approx(-20, rel=0.1)
    assert certificate.layers == (0, 1, 2)  # the start is gone from the second layer too
    assert certificate.fitted.best < 0.15
    with pytest.raises(ValueError, match="homogeneous"):
        train(model_for(binary, bias="all"), binary, settings, progress=False)


def test_the_flow_stops_at_the_minimum_of_data_that_cannot_be_separated(binary) -> None:
    x = binary.x[:4].repeat(3, 1, 1, 1)
    y = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1])  # each image: one label twice, the other once
    trained = train(
        ModelSettings((1, 28, 28), 1, ()),
        replace(binary, x=x, y=y),
        TrainSettings(dtype="float64"),
        progress=False,
    )
    assert trained.stopped == "minimum"
    entropy = -(math.log(1 / 3) / 3 + 2 * math.log(2 / 3) / 3)
    assert trained.certificate.train_loss == pytest.approx(entropy, rel=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "squared", "power", "huber"])
def test_decayed_networks_end_stationary(binary, loss) -> None:
    settings = TrainSettings(loss=loss, weight_decay=1e-3)
    trained = train(model_for(binary, (100, 100), **DECAYED), binary, settings, progress=False)
    residual = trained.certificate.closed_form
    assert residual.smoothed["300"] < 0.05
    assert residual.best <= residual.total
    assert trained.certificate.train_error == 0
    norms = trained.certificate.norms
    assert max(norms) / min(norms) < 1.1  # balanced layers, as stationarity demands


def test_decayed_multiclass_and_convolutional_networks_end_stationary(binary, multiclass) -> None:
    settings = TrainSettings(loss="cross_entropy", weight_decay=1e-3)
    trained = train(model_for(multiclass, (100, 100), **DECAYED), multiclass, settings, progress=False)
    assert trained.certificate.closed_form.best < 0.05
    conv = model_for(binary, (30,), kernel=5, channels=4, **DECAYED)
    trained = train(conv, binary, TrainSettings(weight_decay=1e-2), progress=False)
    assert trained.certificate.closed_form.best < 0.1
    assert trained.certificate.train_error == 0


@pytest.mark.parametrize("name", LOSSES)
def test_closed_form_multipliers_leave_the_residual_of_the_certificate(binary, multiclass, name) -> None:
    """θ − Σ λᵢ∇Φ(xᵢ) with λ = −ℓ'/(n·decay) has the norm ‖∇objective‖/decay, by plain autograd."""
    task = multiclass if name == "cross_entropy" else binary
    decay = 3e-3
    settings = TrainSettings(loss=name, weight_decay=decay, trainer="adam", steps=60)
    trained = train(model_for(task, (20,), **DECAYED), task, settings, progress=False)
    network, loss, n = trained.network.double(), get_loss(name), len(task.x)
    parameters = list(network.parameters())
    outputs = network(task.x.double())
    targets = loss.targets(task.y, task.outputs)
    multipliers = -loss.derivatives(outputs.detach(), targets) / (n * decay)
    sums = torch.autograd.grad((multipliers * outputs).sum(), parameters)
    theta = torch.cat([p.detach().flatten() for p in parameters])
    left = theta - torch.cat([s.flatten() for s in sums])
    assert float(left.norm() / theta.norm()) == pytest.approx(trained.certificate.closed_form.total, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "trainer"),
    [
        *product(["logistic", "squared"], ["stationary", "paper", "sgd"]),
        ("squared", "newton"),
    ],
)
def test_a_planted_stationary_point_is_left_in_place(loss, trainer) -> None:
    """One neuron per sample, on a simplex: neuron i sees only sample i, and every multiplier is ±1.

    With W₁ = a·xᵢ and W₂ = ±a, Φᵢ = ±a², and stationarity is |ℓ'(a²)| = n·decay, which fixes a.
    """
    n, decay = 4, 0.02
    corners = torch.eye(n).double() - 1 / n
    x = corners / corners.norm(dim=1, keepdim=True)
    y = torch.tensor([0, 1, 1, 0])
    square = {"squared": 1 - n * decay / 2, "logistic": math.log(1 / (n * decay) - 1)}[loss]
    network = Network(ModelSettings((n,), 1, (n,), "none", None)).double()
    with torch.no_grad():
        network.layers[0].weight.copy_(math.sqrt(square) * x)
        network.layers[1].weight.copy_(math.sqrt(square) * (2 * y.double() - 1)[None])
    engine = Products(network, x, torch.float64)
    planted = engine.read(network)
    settings = TrainSettings(
        loss=loss, weight_decay=decay, trainer=trainer, start_scale=1.0, batch=n, steps=100
    )
    targets = get_loss(loss).targets(y, 1)
    run = TRAINERS[trainer](engine, planted, get_loss(loss), targets, settings.resolved(1))
    for _ in range(100):
        run.step()
    torch.testing.assert_close(run.theta, planted, rtol=0, atol=1e-7)
    # A trainer that never moves would pass the above.
    nudged = TRAINERS[trainer](engine, 1.1 * planted, get_loss(loss), targets, settings.resolved(1))
    for _ in range(100):
        nudged.step()
    assert not torch.allclose(nudged.theta, 1.1 * planted, atol=1e-2)


@pytest.mark.parametrize("trainer", ["paper", "sgd", "adam"])
def test_divergence_raises_and_returns_nothing(binary, trainer) -> None:
    settings = TrainSettings(loss="squared", trainer=trainer, lr=1e4, steps=200)
    with pytest.raises(DivergenceError, match="lower lr"):
        train(model_for(binary, **DECAYED), binary, settings, progress=False)


def test_a_huge_first_rate_is_rolled_back(binary) -> None:
    for settings in (TrainSettings(lr=1e6), TrainSettings(lr=1e6, weight_decay=1e-3)):
        trained = train(model_for(binary, **DECAYED), binary, settings, progress=False)
        assert trained.certificate.train_error == 0


def test_broken_data_is_refused(binary) -> None:
    x = binary.x.clone()
    x[0, 0, 0, 0] = math.nan
    for settings in (TrainSettings(), TrainSettings(weight_decay=0.1), TrainSettings(trainer="paper")):
        with pytest.raises((DivergenceError, ValueError), match="finite"):
            train(model_for(binary), replace(binary, x=x), settings, progress=False)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trainer": "lbfgs"}, "flow, margin, stationary, newton, paper, sgd, adam"),
        ({"loss": "hinge"}, "logistic"),
        ({"weight_decay": -1.0}, "zero or positive"),
        ({"dtype": "float16"}, "float32, float64"),
        ({"steps": 0}, "at least 1"),
        ({"lr": -0.1}, "positive"),
        ({"space": "fourier"}, "span, pixels"),
    ],
)
def test_impossible_settings_are_explained(values, message) -> None:
    with pytest.raises(ValueError, match=message):
        TrainSettings(**values)


@pytest.mark.parametrize(
    ("settings", "outputs", "trainer"),
    [
        (TrainSettings(), 1, "flow"),
        (TrainSettings(weight_decay=1e-3), 1, "stationary"),
        (TrainSettings(loss="squared", weight_decay=1e-3), 1, "newton"),
        (TrainSettings(loss="squared", weight_decay=1e-3), 3, "stationary"),
        (TrainSettings(loss="huber"), 1, "stationary"),
    ],
)
def test_auto_chooses_by_loss_and_decay(settings, outputs, trainer) -> None:
    assert settings.resolved(outputs).trainer == trainer


def test_trainers_refuse_what_they_cannot_do(binary) -> None:
    for settings, message in (
        (TrainSettings(trainer="flow", weight_decay=0.1), "stationary"),
        (TrainSettings(trainer="flow", loss="squared"), "separable"),
        (TrainSettings(trainer="stationary"), "flow"),
        (TrainSettings(trainer="newton", loss="squared"), "weight decay"),
    ):
        with pytest.raises(ValueError, match=message):
            train(model_for(binary), binary, settings, progress=False)
