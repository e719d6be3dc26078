"""Reads a network as a chain of layers with ReLU between them, where it is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reconlib.models import Network


@dataclass(frozen=True)
class Chain:
    """x → layer → ReLU → layer → … → outputs; only the first layer may be a convolution.

    Weights are (out, in) matrices, for a convolution (channels, in, k, k).
    """

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor | None, ...]
    stride: tuple[int, int] | None = None  # of the convolution; None: the first layer is a matrix
    padding: tuple[int, int] | None = None

    @property
    def depth(self) -> int:
        return len(self.weights)

    @property
    def convolutional(self) -> bool:
        return self.stride is not None

    @property
    def outputs(self) -> int:
        return self.weights[-1].shape[0]

    def to(self, dtype: torch.dtype, device: torch.device) -> Chain:
        return self._map(lambda t: t.detach().to(device=device, dtype=dtype))

    def rescaled(self, factor: float) -> Chain:
        """All parameters times `factor`; multipliers become factor^(2 − depth) times the old."""
        return self._map(lambda t: t * factor)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Chain:
        return Chain(
            tuple(change(w) for w in self.weights),
            tuple(None if b is None else change(b) for b in self.biases),
            self.stride,
            self.padding,
        )


def read_chain(model: nn.Module) -> Chain | None:
    """The chain of a `Network`, or of an `nn.Sequential` of the same form; None for any other module."""
    if isinstance(model, Network) and type(model).forward is Network.forward:
        modules = [m for layer in model.layers for m in (layer, nn.ReLU())][:-1]
        if isinstance(modules[0], nn.Conv2d):
            modules[2:2] = [nn.Flatten()]
    elif type(model) is nn.Sequential:
        modules = list(model)
    else:
        return None
    return _chain([m for m in modules if not isinstance(m, nn.Identity)])


def _chain(modules: list[nn.Module]) -> Chain | None:
    if modules and type(modules[0]) is nn.Flatten and modules[0].start_dim == 1:
        modules = modules[1:]
        if modules and isinstance(modules[0], nn.Conv2d):
            return None
    if not modules:
        return None
    first = modules[0]
    stride = padding = None
    rest = modules[1:]
    if type(first) is nn.Conv2d:
        plain = first.groups == 1 and first.dilation == (1, 1) and first.padding_mode == "zeros"
        if not plain or not isinstance(first.padding, tuple) or not rest:
            return None
        stride, padding = first.stride, first.padding
        # ReLU and flattening commute.
        if len(rest) < 3 or {type(rest[0]), type(rest[1])} != {nn.ReLU, nn.Flatten}:
            return None
        rest = [nn.ReLU(), *rest[2:]]
    elif type(first) is not nn.Linear:
        return None
    linear = rest[1::2]
    if len(rest) % 2 or any(type(m) is not nn.ReLU for m in rest[::2]):
        return None
    if any(type(m) is not nn.Linear for m in linear):
        return None
    layers = [first, *linear]
    return Chain(
        tuple(layer.weight for layer in layers),  # type: ignore[misc]
        tuple(layer.bias for layer in layers),  # type: ignore[misc]
        stride,  # type: ignore[arg-type]
        padding,  # type: ignore[arg-type]
    )
