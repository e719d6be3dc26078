"""How stationary a trained network is, measured with its training data; no attack ever sees this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from reconlib.losses import get_loss, log_loss
from reconlib.models import Network
from reconlib.training.linearised import Linearised
from reconlib.training.multipliers import nonnegative
from reconlib.training.products import Products
from reconlib.training.settings import TrainSettings

if TYPE_CHECKING:
    from reconlib.data import Task

ALPHAS = (30.0, 100.0, 300.0, 1000.0)  # sharpness of the slopes σ(αz) under which a residual is also given
QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Residual:
    """‖θ − Σ λᵢ∇ᵢ‖ / ‖θ‖ with the ReLU's own slopes, by layer too, and in total with slopes σ(αz)."""

    total: float
    by_layer: tuple[float, ...]
    smoothed: dict[str, float]

    @property
    def best(self) -> float:
        """The smallest over all slopes tried: what an attacker with a smoothed backward pass can reach."""
        return min(self.total, *self.smoothed.values())


@dataclass(frozen=True)
class Certificate:
    """Stationarity, margins, errors and homogeneity of one trained network.

    `closed_form` uses the multipliers that the loss and the decay dictate (None without decay);
    `fitted` the best non-negative ones (None for regression losses), fitted on `layers`: the layers
    that do not mainly consist of their random start. `fitted_soft` (several classes) is the same with
    the cross-entropy's own mixture of rivals in place of the runner-up, still one multiplier per sample.
    """

    closed_form: Residual | None
    fitted: Residual | None
    fitted_soft: Residual | None
    layers: tuple[int, ...]
    start_share: tuple[float, ...]  # by layer: share of ‖W‖² that is still the start
    norms: tuple[float, ...]
    margins: tuple[float, ...]  # at QUANTILES
    on_margin: float  # share of samples within a tenth of the median above the smallest margin
    multipliers_on_margin: float | None  # share of Σ λᵢ that those samples hold: KKT asks for 1
    log_loss: float | None  # ln of the training loss, separable losses only
    train_loss: float
    test_loss: float
    train_error: float
    test_error: float
    homogeneity: float  # largest relative |Φ(2θ) − 2^L Φ(θ)|
    notes: tuple[str, ...] = field(default=())

    @property
    def residual(self) -> float:
        """The one number: closed form where there is one, else fitted on the informative layers."""
        chosen = self.closed_form or self.fitted
        return chosen.total if chosen else float("nan")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Certificate:
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        for name in ("closed_form", "fitted", "fitted_soft"):
            if values[name] is not None:
                r = values[name]
                values[name] = Residual(r["total"], tuple(r["by_layer"]), dict(r["smoothed"]))
        return cls(**values)


def certify(network: Network, task: Task, settings: TrainSettings, start: Network) -> Certificate:
    """Measure `network` on the task it was trained on; `start` is the network before training."""
    loss = get_loss(settings.loss)
    engine = Products(network, task.x, torch.float64)
    at = Linearised(engine, engine.read(network))
    outputs, targets = at.outputs, loss.targets(task.y, network.settings.outputs)
    directions, margins = margin_directions(outputs, task.y)
    share = _start_share(network, start)
    layers = [k for k, s in enumerate(share) if s < 0.5] or list(range(len(share)))
    on_margin = margins <= margins.min() + 0.1 * margins.median().abs()
    fitted, fitted_soft, held, closed, soft = None, None, None, None, None
    if loss.separable:
        fitted, multipliers = _fitted(at, directions, layers)
        soft, soft_directions = loss.soft_margin(outputs, targets)
        if outputs.shape[1] > 1:
            fitted_soft, _ = _fitted(at, soft_directions, layers)
        held = float(multipliers[on_margin].sum() / multipliers.sum().clamp_min(1e-300))
    if settings.weight_decay:
        derivatives = loss.derivatives(outputs, targets) / engine.n
        closed = _closed_form(at, derivatives, settings.weight_decay)
    test_outputs = predict(network, task.x_test)
    return Certificate(
        closed_form=closed,
        fitted=fitted,
        fitted_soft=fitted_soft,
        layers=tuple(layers),
        start_share=tuple(share),
        norms=tuple(at.norms.tolist()),
        margins=tuple(torch.quantile(margins, torch.tensor(QUANTILES, dtype=margins.dtype)).tolist()),
        on_margin=float(on_margin.double().mean()),
        multipliers_on_margin=held,
        log_loss=None if soft is None else float(log_loss(soft)),
        train_loss=float(loss.values(outputs, targets).mean()),
        test_loss=float(loss.values(test_outputs, loss.targets(task.y_test, outputs.shape[1])).mean()),
        train_error=error(outputs, task.y),
        test_error=error(test_outputs, task.y_test),
        homogeneity=homogeneity(network, task.x),
        notes=_notes(settings, share),
    )


def margin_directions(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """∂(margin)/∂Φ `(n, outputs)` and the margins `(n,)`: ±Φ, or own class minus the runner-up."""
    if outputs.shape[1] == 1:
        sign = (2 * y.double() - 1)[:, None]
        return sign, (sign * outputs)[:, 0]
    own = torch.nn.functional.one_hot(y, outputs.shape[1]).double()
    rival = outputs.masked_fill(own.bool(), -torch.inf).argmax(1)
    directions = own - torch.nn.functional.one_hot(rival, outputs.shape[1]).double()
    return directions, (directions * outputs).sum(1)


@torch.no_grad()
def predict(network: Network, x: Tensor, chunk: int = 1000) -> Tensor:
    """Outputs in float64 of a float32 network, in chunks so that memory stays bounded."""
    return torch.cat([network(part).double() for part in x.split(chunk)])


def error(outputs: Tensor, y: Tensor) -> float:
    """Share of wrong answers."""
    guess = (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)
    return float((guess != y).double().mean())


@torch.no_grad()
def homogeneity(network: Network, x: Tensor, samples: int = 64) -> float:
    """Largest relative deviation from Φ(2θ) = 2^L Φ(θ), over a few samples, in float64."""
    doubled, plain = Network(network.settings).double(), Network(network.settings).double()
    plain.load_state_dict(network.state_dict())
    doubled.load_state_dict({name: 2 * value for name, value in plain.state_dict().items()})
    x = x[:samples].double()
    expected = 2 ** len(network.layers) * plain(x)
    return float((doubled(x) - expected).abs().max() / expected.abs().max().clamp_min(1e-300))


def _closed_form(at: Linearised, derivatives: Tensor, decay: float) -> Residual:
    total, by_layer = at.residual(derivatives, decay, at.slopes(None))
    smoothed = {f"{a:g}": at.residual(derivatives, decay, at.slopes(a))[0] for a in ALPHAS}
    return Residual(total, tuple(by_layer), smoothed)


def _fitted(at: Linearised, directions: Tensor, layers: list[int]) -> tuple[Residual, Tensor]:
    def fit(alpha: float | None) -> tuple[float, list[float], Tensor]:
        grams, moments = at.grams(directions, at.slopes(alpha))
        multipliers = nonnegative(grams[layers].sum(0), moments[layers].sum(0))
        return *at.kkt(grams, moments, multipliers, layers), multipliers

    total, by_layer, multipliers = fit(None)
    # Each fit factorises an n × n matrix a few dozen times: minutes for thousands of samples.
    alphas = ALPHAS if len(directions) <= 1000 else (300.0,)
    return Residual(total, tuple(by_layer), {f"{a:g}": fit(a)[0] for a in alphas}), multipliers


def _start_share(network: Network, start: Network) -> list[float]:
    """Share of a layer's ‖W‖² that is its start, still in it: what neither data nor decay has replaced."""
    shares = []
    for now, before in zip(network.layers, start.layers, strict=True):
        w, w0 = cast(Tensor, now.weight).detach().double(), cast(Tensor, before.weight).detach().double()
        # A layer may grow along its start; only once the start is start.
        kept = ((w * w0).sum() / w0.square().sum()).clamp(0, 1)
        shares.append(float(kept**2 * w0.square().sum() / w.square().sum().clamp_min(1e-300)))
    return shares


def _notes(settings: TrainSettings, share: list[float]) -> tuple[str, ...]:
    notes = [
        f"layer {k + 1} mainly keeps its random start (share {s:.2f}): its equation says little of the data"
        for k, s in enumerate(share)
        if s >= 0.5
    ]
    if not settings.weight_decay and not get_loss(settings.loss).separable:
        notes.append("a regression loss without weight decay has no stationarity equation for the weights")
    return tuple(notes)
