"""The bilevel problem against oracles: autograd, scikit-learn, unrolling, differences, planted images."""

from __future__ import annotations

import importlib

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from reconlib.bilevel import (
    FORMULATIONS,
    Classifier,
    NotConverged,
    Retrained,
    Training,
    implicit,
    parameter_distance,
    retrain,
    search,
    stationarity,
    unrolled,
)
from reconlib.bilevel.classifier import span
from reconlib.bilevel.curvature import curvature
from reconlib.bilevel.retrain import Saddle, conjugate_gradients, leave

KINDS = [(0, 1), (0, 3), (5, 1), (5, 3)]  # hidden, outputs
each_kind = pytest.mark.parametrize(
    ("hidden", "outputs"), KINDS, ids=[f"hidden{h}-outputs{o}" for h, o in KINDS]
)


def problem(
    hidden: int, outputs: int, n: int = 9, d: int = 7, decay: float = 0.05
) -> tuple[Training, Tensor]:
    """Random images with labels in turn; fewer dimensions than images or more, as asked."""
    y = torch.arange(n) % max(2, outputs)
    training = Training(Classifier(d, outputs, hidden, sharpness=3.0), y, decay)
    return training, torch.randn(n, d, generator=torch.Generator().manual_seed(1)).double()


def given(training: Training, x: Tensor) -> Tensor:
    """Parameters trained on other images: a target that is not zero distance away."""
    others = x.roll(1, 0) + 0.3 * x.flip(0)
    return retrain(training, others, training.classifier.start(0)).theta


@each_kind
def test_curvature_is_what_autograd_gives(hidden: int, outputs: int) -> None:
    training, x = problem(hidden, outputs)
    theta = training.classifier.start(3, scale=2.0)
    value, gradient, product = curvature(training, theta, x)
    at = theta.clone().requires_grad_()
    energy = training.energy(at, x)
    (expected,) = torch.autograd.grad(energy, at)
    hessian = torch.autograd.functional.hessian(lambda t: training.energy(t, x), theta)
    v = torch.randn(len(theta), generator=torch.Generator().manual_seed(0)).double()
    assert value == pytest.approx(float(energy.detach()), rel=1e-12)
    assert torch.allclose(gradient, expected, atol=1e-13)
    assert torch.allclose(product(v), hessian @ v, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 4])
def test_affine_retraining_agrees_with_scikit_learn(outputs: int) -> None:
    training, x = problem(0, outputs, n=30, d=5, decay=0.02)
    found = retrain(training, x, training.classifier.start(0))
    # Its intercept is not decayed, so the bias becomes the weight of a constant pixel.
    model = LogisticRegression(C=1 / (30 * 0.02), fit_intercept=False, tol=1e-12, max_iter=100_000)
    model.fit(torch.cat([x, torch.ones(30, 1)], 1).numpy(), training.y.numpy())
    weight, bias = training.classifier.split(found.theta)
    ours = torch.cat([weight, bias[:, None]], 1)
    assert torch.allclose(ours, torch.from_numpy(model.coef_), atol=1e-5)


@pytest.mark.parametrize("d", [4, 40])
@each_kind
def test_retraining_ends_at_a_stationary_point_of_the_full_problem(hidden: int, outputs: int, d: int) -> None:
    training, x = problem(hidden, outputs, d=d)
    found = retrain(training, x, training.classifier.start(0), tolerance=1e-10)
    _, gradient, _ = curvature(training, found.theta, x)
    assert float(gradient.norm()) <= 2e-10 * training.decay * float(found.theta.norm())
    # In the span of the images, although the start was not.
    weight, basis = training.classifier.split(found.theta)[0], span(x)
    assert torch.allclose(weight, weight @ basis.T @ basis, atol=1e-12)


@each_kind
def test_multipliers_put_the_weights_together(hidden: int, outputs: int) -> None:
    """θ = Σ λ_i ∇Φ(x_i), the stationarity equation of the papers, at a minimiser."""
    training, x = problem(hidden, outputs)
    theta = retrain(training, x, training.classifier.start(0), tolerance=1e-11).theta
    multipliers = training.multipliers(theta, x)
    at = theta.clone().requires_grad_()
    (explained,) = torch.autograd.grad((multipliers * training.classifier(at, x)).sum(), at)
    assert torch.allclose(explained, theta, atol=1e-9)


@pytest.mark.parametrize("d", [4, 20])
@each_kind
def test_implicit_unrolled_and_finite_differences_agree(hidden: int, outputs: int, d: int) -> None:
    training, x = problem(hidden, outputs, d=d, decay=0.1)
    target = given(training, x)
    theta = retrain(training, x, training.classifier.start(0), tolerance=1e-12).theta
    value, gradient = implicit(training, x, theta, target, tolerance=1e-12)
    assert value == pytest.approx(0.5 * float((theta - target).square().sum()), rel=1e-12)
    assert value > 1e-3, "a target at distance zero would make every gradient agree"
    _, direct = implicit(training, x, theta, target, solver="direct")
    assert torch.allclose(gradient, direct, rtol=1e-7, atol=1e-9)

    # Unrolled, the gradient is the Neumann series of the inverse Hessian: its flattest direction comes last.
    hessian = torch.autograd.functional.hessian(lambda t: training.energy(t, x), theta)
    curvatures = torch.linalg.eigvalsh(hessian)
    rate = 1 / float(curvatures[-1])
    steps = int(14 / (rate * float(curvatures[0])))
    through_value, through = unrolled(training, x, theta, target, steps=steps, rate=rate)
    assert through_value == pytest.approx(value, rel=1e-9)
    assert torch.allclose(gradient, through, rtol=1e-5, atol=1e-7)

    def distance(images: Tensor) -> float:
        moved = retrain(training, images, theta, tolerance=1e-12).theta
        return 0.5 * float((moved - target).square().sum())

    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(5)).double()
    h = 1e-5
    slope = (distance(x + h * direction) - distance(x - h * direction)) / (2 * h)
    assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-5)


@each_kind
def test_gradient_of_the_kkt_form(hidden: int, outputs: int) -> None:
    training, x = problem(hidden, outputs)
    target = given(training, x)
    value, gradient = stationarity(training, x, target)
    at = target.clone().requires_grad_()
    weighted = (training.multipliers(target, x) * training.classifier(at, x)).sum()
    (explained,) = torch.autograd.grad(weighted, at)
    assert value == pytest.approx(0.5 * float((target - explained).square().sum()), rel=1e-10)
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(5)).double()
    h = 1e-6
    ahead, behind = (stationarity(training, x + s * h * direction, target)[0] for s in (1, -1))
    assert float((gradient * direction).sum()) == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("formulation", list(FORMULATIONS))
@each_kind
def test_the_truth_is_a_zero_of_both_formulations(hidden: int, outputs: int, formulation: str) -> None:
    training, x = problem(hidden, outputs)
    target = retrain(training, x, training.classifier.start(0), tolerance=1e-11).theta
    found = search(formulation, training, target, x, steps=5)
    assert found.parameter_distance < 1e-8
    assert found.residual < 1e-8
    assert torch.allclose(found.images, x, atol=1e-6)


@pytest.mark.parametrize("formulation", list(FORMULATIONS))
def test_planted_images_come_back_where_equations_outnumber_unknowns(formulation: str) -> None:
    """Four classes, three images: the weights have rank three, and the images are determined."""
    training = Training(Classifier(6, 4), torch.tensor([0, 1, 2]), 0.05)
    generator = torch.Generator().manual_seed(2)
    x, start = (torch.randn(3, 6, generator=generator).double() for _ in range(2))
    target = retrain(training, x, training.classifier.start(0), tolerance=1e-11).theta
    found = search(formulation, training, target, start, steps=400, tolerance=1e-8)
    assert found.parameter_distance < 1e-6
    assert torch.allclose(found.images, x, atol=1e-4)
    assert not torch.allclose(start, x, atol=0.5)


@pytest.mark.parametrize("formulation", list(FORMULATIONS))
def test_other_images_explain_the_weights_where_unknowns_outnumber_equations(formulation: str) -> None:
    """Two labels, one direction, eight images: exact solutions that are not the training images."""
    training, x = problem(0, 1, n=8, d=12)
    target = retrain(training, x, training.classifier.start(0), tolerance=1e-11).theta
    start = torch.randn(8, 12, generator=torch.Generator().manual_seed(9)).double()
    found = search(formulation, training, target, start, steps=400)
    assert found.parameter_distance < 1e-4
    assert float((found.images - x).square().mean().sqrt()) > 0.5
    # Retraining from scratch agrees: an affine classifier has one minimiser.
    fresh = training.classifier.start(7)
    assert parameter_distance(training, found.images, target, fresh) == pytest.approx(
        found.parameter_distance, abs=1e-6
    )


def test_history_is_the_distance_that_was_descended() -> None:
    training, x = problem(0, 3)
    target = given(training, x)
    found = search("bilevel", training, target, x, steps=30)
    assert found.history["distance"][0] == pytest.approx(parameter_distance(training, x, target), rel=1e-6)
    assert found.history["distance"][-1] < 0.3 * found.history["distance"][0]


def test_a_saddle_is_found_and_left() -> None:
    """Two equal neurons with opposite outputs: zero is stationary, and not a minimum."""
    training, x = problem(2, 1, n=6, d=3, decay=1e-3)
    basis = span(x)
    theta = torch.zeros(training.classifier.parameters).double()
    inner, z = training.within(basis), x @ basis.T
    _, _, product = curvature(inner, training.classifier.project(theta, basis), z)
    right = torch.randn(inner.classifier.parameters, generator=torch.Generator().manual_seed(0)).double()
    with pytest.raises(Saddle) as caught:
        conjugate_gradients(product, right)
    away = leave(training, x, theta + 1e-3, caught.value, share=0.5)
    assert float(training.energy(away, x)) < float(training.energy(theta + 1e-3, x))


def test_retraining_says_when_it_did_not_converge() -> None:
    training, x = problem(5, 3)
    with pytest.raises(NotConverged, match="after 2 steps"):
        retrain(training, x, training.classifier.start(0), most_steps=2)


def test_a_search_turns_back_where_retraining_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first five trials that are far from the start are refused; the search still descends."""
    training, x = problem(0, 3)
    target = given(training, x)
    module = importlib.import_module("reconlib.bilevel.search")
    refused = []

    def fragile(training: Training, at: Tensor, start: Tensor, **limits: int) -> Retrained:
        if float((at - x).abs().max()) > 0.1 and len(refused) < 5:
            refused.append(at)
            raise NotConverged("too stiff")
        return retrain(training, at, start, **limits)

    monkeypatch.setattr(module, "retrain", fragile)
    found = search("bilevel", training, target, x, steps=60)
    assert len(refused) == 5
    assert found.parameter_distance < 0.3 * found.history["distance"][0]
    monkeypatch.setattr(module, "retrain", lambda *_: fragile(training, x + 1.0, target))
    refused.clear()
    with pytest.raises(NotConverged, match="too stiff"):
        search("bilevel", training, target, x)


def test_errors_say_what_is_wrong() -> None:
    training, x = problem(0, 3)
    with pytest.raises(ValueError, match="decay must be positive"):
        Training(training.classifier, training.y, 0.0)
    with pytest.raises(ValueError, match="between 0 and 2"):
        Training(training.classifier, training.y + 1, 0.1)
    with pytest.raises(ValueError, match="at least 1"):
        Classifier(0, 3)
    with pytest.raises(ValueError, match="sharpness"):
        Classifier(4, 3, 5, sharpness=0.0)
    with pytest.raises(ValueError, match="bilevel, kkt"):
        search("dual", training, training.classifier.start(0), x)
    with pytest.raises(ValueError, match="cg or direct"):
        implicit(training, x, training.classifier.start(0), training.classifier.start(0), solver="lu")  # type: ignore[arg-type]
