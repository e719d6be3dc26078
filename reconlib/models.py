"""The networks of the papers: MLPs and one-convolution nets, homogeneous unless asked otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

Bias = Literal["first", "all", "none"]


@dataclass(frozen=True)
class ModelSettings:
    """Everything that determines a freshly initialised network.

    `hidden` are the hidden widths (empty: an affine classifier); `kernel` and `channels` put a
    valid convolution in front (ConvNet); `first_layer_scale` is the standard deviation of the first
    layer's start, or None for PyTorch's own start.
    """

    input_shape: tuple[int, ...]
    outputs: int
    hidden: tuple[int, ...] = (1000, 1000)
    bias: Bias = "first"
    first_layer_scale: float | None = 1e-4
    kernel: int | None = None
    channels: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_shape", tuple(self.input_shape))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.bias not in ("first", "all", "none"):
            raise ValueError(f"bias must be one of 'first', 'all', 'none', not {self.bias!r}")
        sizes = (*self.input_shape, *self.hidden, self.outputs)
        if not self.input_shape or any(int(s) != s or s < 1 for s in sizes):
            raise ValueError(f"every size must be a positive whole number, not {sizes}")
        if (self.kernel is None) != (self.channels is None):
            raise ValueError("a ConvNet needs both kernel and channels")
        if self.kernel is not None:
            if len(self.input_shape) != 3:
                raise ValueError(f"a ConvNet reads (C, H, W) images, not {self.input_shape}")
            if not 1 <= self.kernel <= min(self.input_shape[1:]):
                raise ValueError(
                    f"kernel {self.kernel} does not fit an image of {self.input_shape[1:]} pixels"
                )


class Network(nn.Module):
    """Φ(x; θ): flat or image-shaped input, `(b, outputs)` out; layers in `self.layers`, ReLU between."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.settings = settings
        self.input_shape = settings.input_shape
        generator = torch.Generator().manual_seed(settings.seed)
        layers: list[nn.Module] = []
        has_bias = {"first": lambda i: i == 0, "all": lambda i: True, "none": lambda i: False}[settings.bias]
        fan_in = math.prod(settings.input_shape)
        if settings.kernel is not None and settings.channels is not None:
            c, h, w = settings.input_shape
            layers.append(_empty(nn.Conv2d, c, settings.channels, settings.kernel, bias=has_bias(0)))
            side_h, side_w = h - settings.kernel + 1, w - settings.kernel + 1
            fan_in = settings.channels * side_h * side_w
        for width in (*settings.hidden, settings.outputs):
            layers.append(_empty(nn.Linear, fan_in, width, bias=has_bias(len(layers))))
            fan_in = width
        self.layers = nn.ModuleList(layers)
        _start(layers, settings.first_layer_scale, generator)

    def forward(self, x: Tensor) -> Tensor:
        first = self.layers[0]
        z = x.reshape(-1, *self.input_shape) if isinstance(first, nn.Conv2d) else x.flatten(1)
        for i, layer in enumerate(self.layers):
            if i:
                z = torch.relu(z).flatten(1)
            z = layer(z)
        return z


# PyTorch's own start would draw from the global generator, which is not ours to move.
_empty = nn.utils.skip_init


def _start(layers: Sequence[nn.Module], first_scale: float | None, generator: torch.Generator) -> None:
    """PyTorch's default distribution, drawn from our own generator; the first layer N(0, first_scale²)."""
    with torch.no_grad():
        for i, layer in enumerate(layers):
            weight, bias = cast(Tensor, layer.weight), cast(Tensor | None, layer.bias)
            bound = 1 / math.sqrt(weight[0].numel())
            for parameter in (weight, bias):
                if parameter is None:
                    continue
                if i == 0 and first_scale is not None:
                    parameter.normal_(0, first_scale, generator=generator)
                else:
                    parameter.uniform_(-bound, bound, generator=generator)


def MLP(
    input_shape: Sequence[int],
    hidden: Sequence[int] = (1000, 1000),
    outputs: int = 1,
    *,
    bias: Bias = "first",
    first_layer_scale: float | None = 1e-4,
    seed: int = 0,
) -> Network:
    """A fully connected network; `hidden=()` is an affine classifier."""
    return Network(
        ModelSettings(tuple(input_shape), outputs, tuple(hidden), bias, first_layer_scale, seed=seed)
    )


def ConvNet(
    input_shape: Sequence[int],
    kernel: int = 3,
    channels: int = 32,
    hidden: Sequence[int] = (1000,),
    outputs: int = 1,
    *,
    bias: Bias = "first",
    first_layer_scale: float | None = None,
    seed: int = 0,
) -> Network:
    """CONV(kernel, channels)-hidden-outputs: a valid convolution, then fully connected layers."""
    return Network(
        ModelSettings(
            tuple(input_shape), outputs, tuple(hidden), bias, first_layer_scale, kernel, channels, seed
        )
    )


def settings_to_dict(settings: ModelSettings) -> dict:
    """JSON-ready form, for checkpoints."""
    return asdict(settings)
