"""Descent rules: each keeps its state in plain tensors, so that a run can be stopped and resumed."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Optimiser(Protocol):
    """Moves `value` in place, against `gradient`."""

    state: dict[str, Tensor]

    def step(self, value: Tensor, gradient: Tensor, rate: float) -> None: ...


class Momentum:
    """v ← 0.9 v + g; x ← x − rate·v: the papers' SGD."""

    def __init__(self, value: Tensor, momentum: float = 0.9):
        self.momentum = momentum
        self.state = {"velocity": torch.zeros_like(value)}

    def step(self, value: Tensor, gradient: Tensor, rate: float) -> None:
        velocity = self.state["velocity"].mul_(self.momentum).add_(gradient)
        value.add_(velocity, alpha=-rate)


class Adam:
    """Adam without weight decay; ε far below any gradient that matters here."""

    def __init__(self, value: Tensor, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-12):
        self.betas = betas
        self.epsilon = epsilon
        self.scratch = torch.empty_like(value)
        self.state = {
            "mean": torch.zeros_like(value),
            "square": torch.zeros_like(value),
            "count": torch.zeros((), dtype=torch.int64),
        }

    def step(self, value: Tensor, gradient: Tensor, rate: float) -> None:
        first, second = self.betas
        self.state["count"] += 1
        count = int(self.state["count"])
        mean = self.state["mean"].lerp_(gradient, 1 - first)
        square = self.state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        correction = (1 - second**count) ** 0.5
        torch.sqrt(square, out=self.scratch).add_(self.epsilon * correction)
        value.addcdiv_(mean, self.scratch, value=-rate * correction / (1 - first**count))


OPTIMISERS: dict[str, type[Momentum] | type[Adam]] = {"sgd": Momentum, "adam": Adam}


def optimiser_named(name: str) -> type[Momentum] | type[Adam]:
    """The entry of OPTIMISERS, or an error that lists them."""
    if name not in OPTIMISERS:
        raise ValueError(f"there is no optimiser {name!r}; there are: {', '.join(OPTIMISERS)}")
    return OPTIMISERS[name]
