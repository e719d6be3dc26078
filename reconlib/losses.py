"""The training losses: values, derivatives, and the log forms that stay exact where a loss underflows.

Every loss is a mean over samples. Its derivative with respect to the outputs is all that the
stationarity equation needs: with weight decay, the multiplier of sample i is −ℓ'ᵢ / (n · λ_WD).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


def _no_margin(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    raise TypeError("a regression loss has no margin")


def _no_curvature(outputs: Tensor, targets: Tensor) -> Tensor:
    raise TypeError("a separable loss has no curvature to divide by")


@dataclass(frozen=True)
class Loss:
    """One per-sample loss ℓ(Φ, t): `values` is `(n,)`, `derivatives` is `(n, outputs)`.

    `soft_margin` exists for separable losses only, where ℓ = log(1 + e^(−margin)); it returns that
    margin `(n,)` and its gradient with respect to the outputs `(n, outputs)`. `curvatures` exists for
    regression losses: second derivatives `(n, outputs)`, kept above zero where the true ones vanish.
    """

    name: str
    values: Callable[[Tensor, Tensor], Tensor]
    derivatives: Callable[[Tensor, Tensor], Tensor]
    soft_margin: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = _no_margin
    curvatures: Callable[[Tensor, Tensor], Tensor] = _no_curvature

    @property
    def separable(self) -> bool:
        """True when the loss has no minimum on separable data, so that training goes on for ever."""
        return self.soft_margin is not _no_margin

    def smallest_margin(self, outputs: Tensor, targets: Tensor) -> float:
        """The margin of the sample that is worst off; for regression losses that of the signs."""
        if self.separable:
            return float(self.soft_margin(outputs, targets)[0].min())
        return float(torch.where(targets > 0, outputs, -outputs).min())

    def targets(self, y: Tensor, outputs: int) -> Tensor:
        """What the loss compares the outputs with, from class labels `(n,)`.

        Binary and regression: ±1 as `(n, outputs)` (several outputs: +1 at the class, −1 elsewhere);
        cross-entropy: the labels themselves.
        """
        if self.name == "logistic" and outputs != 1:
            raise ValueError(f"the logistic loss needs 1 output, not {outputs}; use loss='cross_entropy'")
        if self.name == "cross_entropy":
            if outputs < 2:
                raise ValueError("cross-entropy needs at least 2 outputs; use loss='logistic' for one")
            return y.long()
        if outputs == 1:
            if not bool(((y == 0) | (y == 1)).all()):
                raise ValueError(f"one output needs labels 0 and 1, not {y.unique().tolist()}")
            return (2 * y.double() - 1)[:, None]
        return 2 * F.one_hot(y.long(), outputs).double() - 1


def _binary_margin(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return (targets * outputs)[:, 0], targets.expand_as(outputs)


def _multiclass_margin(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Φ_y − logsumexp over the other classes: the soft form of the margin to the runner-up."""
    own = F.one_hot(labels, outputs.shape[1]).bool()
    others = outputs.masked_fill(own, -torch.inf)
    gradient = -torch.softmax(others, 1)
    gradient[own] = 1.0
    return outputs[own] - torch.logsumexp(others, 1), gradient


def _from_margin(margin: Callable) -> tuple[Callable, Callable]:
    def values(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.softplus(-margin(outputs, targets)[0], threshold=50)

    def derivatives(outputs: Tensor, targets: Tensor) -> Tensor:
        m, gradient = margin(outputs, targets)
        return -torch.sigmoid(-m)[:, None] * gradient

    return values, derivatives


def _power(p: float) -> dict[str, Callable]:
    def values(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().pow(p).sum(1)

    def derivatives(outputs: Tensor, targets: Tensor) -> Tensor:
        e = outputs - targets
        return p * e.sign() * e.abs().pow(p - 1)

    def curvatures(outputs: Tensor, targets: Tensor) -> Tensor:
        return p * (p - 1) * (outputs - targets).abs().clamp_min(1e-6).pow(p - 2)

    return {"values": values, "derivatives": derivatives, "curvatures": curvatures}


def _huber_values(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.huber_loss(outputs, targets.to(outputs), reduction="none").sum(1)


def _huber_derivatives(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).clamp(-1.0, 1.0)


def _huber_curvatures(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets).abs() <= 1).to(outputs).clamp_min(1e-3)


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("logistic", *_from_margin(_binary_margin), _binary_margin),
        Loss("cross_entropy", *_from_margin(_multiclass_margin), _multiclass_margin),
        Loss("squared", **_power(2.0)),
        Loss("power", **_power(2.5)),
        Loss("huber", _huber_values, _huber_derivatives, curvatures=_huber_curvatures),
    )
}


def get_loss(name: str) -> Loss:
    """The loss called `name`."""
    if name not in LOSSES:
        raise ValueError(f"there is no loss {name!r}; there are {', '.join(LOSSES)}")
    return LOSSES[name]


def log_loss(margin: Tensor) -> Tensor:
    """ln of the mean of log(1 + e^(−margin)), exact however large the margins are. `(n,)` float64 in."""
    # Beyond 30, log1p(e^-m) equals e^-m to the last bit of a double.
    log_values = torch.where(margin > 30, -margin, torch.log(F.softplus(-margin.clamp_max(30), threshold=50)))
    return torch.logsumexp(log_values, 0) - torch.log(torch.tensor(float(len(margin)), dtype=margin.dtype))


def log_loss_weights(margin: Tensor) -> Tensor:
    """−∂(ln L)/∂marginᵢ `(n,)`: non-negative, near a softmax of −margin, and never 0/0."""
    n = torch.log(torch.tensor(float(len(margin)), dtype=margin.dtype))
    return torch.exp(F.logsigmoid(-margin) - n - log_loss(margin))
