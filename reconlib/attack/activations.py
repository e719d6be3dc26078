"""ReLU whose derivative is σ(αz), so that the stationarity loss has a gradient; for any module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class SmoothedReLU(torch.autograd.Function):
    """max(z, 0) forwards, σ(αz) backwards; the backward pass is itself differentiable."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, alpha: float) -> Tensor:
        ctx.save_for_backward(z)
        ctx.alpha = alpha
        return z.clamp_min(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        return gradient * torch.sigmoid(ctx.alpha * z), None


def smoothed_relu(z: Tensor, alpha: float) -> Tensor:
    """ReLU of any shape with the smoothed derivative."""
    return SmoothedReLU.apply(z, alpha)


_RELUS = {torch.relu, torch.relu_, functional.relu, functional.relu_, Tensor.relu, Tensor.relu_}


class SmoothedReLUs(TorchFunctionMode):
    """Within this context every ReLU of every module is a smoothed one.

    A module that is its own author's, with `torch.relu`, `nn.ReLU` or `F.relu` inside, is attacked as
    it is: nothing is replaced in it.
    """

    def __init__(self, alpha: float):
        super().__init__()
        self.alpha = alpha

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _RELUS:
            z = args[0] if args else (kwargs or {})["input"]
            return smoothed_relu(z, self.alpha)
        return func(*args, **(kwargs or {}))
