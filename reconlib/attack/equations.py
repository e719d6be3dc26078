"""The stationarity equations: which combination of a network's outputs each multiplier belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Equation:
    """θ = Σ_i λ_i ∇(y_i · Φ(x_i)): `coefficients(outputs, labels)` gives y, of shape (m, C).

    `positive`: the multipliers are those of a constraint and may not be negative. `per_output`: every
    output has its own multiplier. `needs_homogeneity`: the equation comes from the margin argument,
    which holds for homogeneous networks only.
    """

    name: str
    coefficients: Callable[[Tensor, Tensor | None], Tensor]
    classes: Callable[[int], int | None]  # number of outputs → number of labels, None: no labels
    positive: bool
    per_output: bool
    needs_homogeneity: bool
    #: (∂y/∂Φ) v per candidate, where y moves smoothly with the outputs; None: y is piecewise constant
    curvature: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None

    def labels(self, m: int, outputs: int) -> Tensor | None:
        """As many candidates of each label as of any other, (m,)."""
        classes = self.classes(outputs)
        return None if classes is None else torch.arange(m) % classes

    def columns(self, outputs: int) -> int:
        """Multipliers per candidate."""
        return outputs if self.per_output else 1


def _signs(outputs: Tensor, labels: Tensor | None) -> Tensor:
    assert labels is not None
    return (2 * labels - 1).to(outputs.dtype)[:, None]


def _margin(outputs: Tensor, labels: Tensor | None) -> Tensor:
    # The runner-up is chosen anew whenever this is called, as in equation (7) of Buzaglo et al.
    assert labels is not None
    own = labels[:, None]
    runner_up = outputs.scatter(1, own, -torch.inf).argmax(1, keepdim=True)
    return torch.zeros_like(outputs).scatter_(1, own, 1.0).scatter_(1, runner_up, -1.0)


def _soft_margin(outputs: Tensor, labels: Tensor | None) -> Tensor:
    # ∇ of Φ_y − ln Σ_{j≠y} exp Φ_j. Cross-entropy pulls on a class in proportion to its probability, so
    # at a finite loss this is the exact combination, and the runner-up alone is its limit.
    assert labels is not None
    own = labels[:, None]
    return -torch.softmax(outputs.scatter(1, own, -torch.inf), 1).scatter(1, own, -1.0)


def _soft_margin_curvature(y: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    rivals = (-y).scatter(1, labels[:, None], 0.0)
    return rivals * ((rivals * direction).sum(1, keepdim=True) - direction)


def _free(outputs: Tensor, labels: Tensor | None) -> Tensor:
    return torch.ones_like(outputs)


def _two(outputs: int) -> int:
    if outputs != 1:
        raise ValueError(
            f"the binary equation is for one output, and this network has {outputs}: "
            "use equation='multiclass' (cross-entropy) or 'general' (weight decay)"
        )
    return 2


def _several(outputs: int) -> int:
    if outputs < 2:
        raise ValueError(
            "the multiclass equation needs at least two outputs, and this network has one: "
            "use equation='binary' (logistic loss) or 'general' (weight decay)"
        )
    return outputs


EQUATIONS: dict[str, Equation] = {
    equation.name: equation
    for equation in (
        Equation("binary", _signs, _two, positive=True, per_output=False, needs_homogeneity=True),
        Equation("multiclass", _margin, _several, positive=True, per_output=False, needs_homogeneity=True),
        Equation(
            "cross_entropy", _soft_margin, _several, positive=True, per_output=False, needs_homogeneity=True,
            curvature=_soft_margin_curvature,
        ),
        Equation("general", _free, lambda _: None, positive=False, per_output=True, needs_homogeneity=False),
    )
}  # fmt: skip


def at_temperature(equation: Equation, temperature: float) -> Equation:
    """The equation of a network whose outputs were all multiplied by `temperature`."""
    plain, curvature = equation.coefficients, equation.curvature
    if curvature is None or temperature == 1:
        return equation
    return replace(
        equation,
        coefficients=lambda outputs, labels: plain(outputs / temperature, labels),
        curvature=lambda y, labels, direction: curvature(y, labels, direction) / temperature,
    )


def equation_named(name: str) -> Equation:
    """The entry of EQUATIONS, or an error that lists them."""
    if name not in EQUATIONS:
        raise ValueError(f"there is no equation {name!r}; there are: {', '.join(EQUATIONS)}")
    return EQUATIONS[name]
