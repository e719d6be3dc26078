"""Says before an attack what it can do with a model: refuses with a remedy, or notes a caveat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.func import functional_call

from reconlib.attack.equations import equation_named
from reconlib.attack.layers import read_chain

_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_DROPOUTS = (nn.modules.dropout._DropoutNd,)
_OTHER_NORMS = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.LocalResponseNorm,
    nn.modules.instancenorm._InstanceNorm,
)
_CURVED = (
    nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.SELU, nn.CELU, nn.Softplus, nn.Mish, nn.Softmax,
    nn.LogSoftmax, nn.Softsign, nn.LogSigmoid, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.ReLU6,
    nn.Softmin,
)  # fmt: skip


class ModelError(ValueError):
    """A model that the attack has no equation for; the text says which layer, why, and what to do."""


@dataclass(frozen=True)
class ModelReport:
    """What the attack will work with."""

    input_shape: tuple[int, ...]
    outputs: int
    parameters: int
    path: Literal["mlp", "conv", "generic"]  # closed form of a chain, or automatic differentiation
    degree: float | None  # L in Φ(x; cθ) = c^L Φ(x; θ), None if there is none
    caveats: tuple[str, ...]


def check_model(
    model: nn.Module, equation: str = "binary", input_shape: Sequence[int] | None = None
) -> ModelReport:
    """Raise ModelError if `equation` cannot be attacked on `model`; otherwise describe it."""
    entry = equation_named(equation)
    _check_parameters(model)
    caveats = _check_layers(model, margin=entry.needs_homogeneity)
    shape, outputs = _probe(model, input_shape)
    entry.classes(outputs)
    degree = _degree(model, shape)
    if degree is None and entry.needs_homogeneity and not caveats:
        later = [n for n, p in model.named_parameters() if n.endswith("bias")][1:]
        because = f" (biases behind the first layer: {', '.join(later)})" if later else ""
        caveats.append(
            f"the network is not homogeneous in its parameters{because}: the {equation} equation holds only "
            "approximately. Train without later biases, or with weight decay and attack equation='general'"
        )
    chain = read_chain(model)
    return ModelReport(
        input_shape=shape,
        outputs=outputs,
        parameters=sum(p.numel() for p in model.parameters()),
        path="generic" if chain is None else "conv" if chain.convolutional else "mlp",
        degree=degree,
        caveats=tuple(caveats),
    )


def _check_parameters(model: nn.Module) -> None:
    named = list(model.named_parameters())
    if not sum(p.numel() for _, p in named):
        raise ModelError(
            "the model has no parameters, so there is no equation to solve: give the trained network itself"
        )
    for name, parameter in named:
        if not parameter.is_floating_point():
            raise ModelError(
                f"{name} is of type {parameter.dtype}: the equation needs real weights. "
                "De-quantise the model first"
            )
        bad = int((~torch.isfinite(parameter)).sum())
        if bad:
            raise ModelError(
                f"{name} has {bad} of {parameter.numel()} entries that are not finite: training diverged or "
                "the file is damaged. Train again with a smaller rate, or load an earlier checkpoint"
            )
        if not bool(parameter.any()) and parameter.dim() > 1:
            raise ModelError(
                f"{name} is zero everywhere, so no gradient passes it: the network was not trained, or "
                "decayed to nothing. Use a smaller weight decay"
            )


def _check_layers(model: nn.Module, *, margin: bool) -> list[str]:
    caveats = []
    for name, module in model.named_modules():
        label = f"{name or 'the model'} ({type(module).__name__})"
        if isinstance(module, _BATCH_NORMS):
            if module.training or not module.track_running_stats:
                raise ModelError(
                    f"{label} normalises over the batch, so that a candidate's output depends on all others "
                    "and the equation has no sum over samples. Call model.eval(), or fold it into the "
                    "layer before"
                )
            caveats.append(f"{label} uses stored statistics, which the equation takes as constants")
        elif isinstance(module, _DROPOUTS) and module.training and module.p > 0:
            raise ModelError(
                f"{label} is in training mode and drops units at random, so Φ is not one function. "
                "Call model.eval()"
            )
        elif margin and isinstance(module, (*_CURVED, *_OTHER_NORMS)):
            raise ModelError(
                f"{label} is not homogeneous: the margin equations (binary, multiclass) follow from "
                "Φ(x; cθ) = c^L Φ(x; θ). If the network was trained with weight decay use "
                "equation='general'; otherwise train it with ReLU"
            )
    return caveats


def _probe(model: nn.Module, given: Sequence[int] | None) -> tuple[tuple[int, ...], int]:
    """Input shape and number of outputs, by trying."""
    shape = given if given is not None else getattr(model, "input_shape", None)
    if shape is None:
        readers = (m for m in model.modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd))
        first = next(readers, None)
        if not isinstance(first, nn.Linear):
            raise ModelError(
                "the shape of the model's input cannot be found from its layers: "
                "say AttackSettings(input_shape=(channels, height, width))"
            )
        shape = (first.in_features,)
    shape = tuple(int(s) for s in shape)
    like = next(model.parameters())
    try:
        with torch.no_grad():
            out = model(torch.zeros(2, *shape, dtype=like.dtype, device=like.device))
    except Exception as error:
        raise ModelError(
            f"the model does not accept an input of shape {shape}: {error}. "
            "Say AttackSettings(input_shape=...) with the shape of one image"
        ) from error
    if not isinstance(out, torch.Tensor) or out.shape[:1] != (2,) or out.dim() > 2:
        found = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise ModelError(f"for two images the model gives {found}, not (2, outputs): wrap it so that it does")
    return shape, out[0].numel()


def _degree(model: nn.Module, shape: tuple[int, ...], factor: float = 1.25) -> float | None:
    """L if scaling all parameters by c scales random outputs by c^L."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(16, *shape, generator=generator, dtype=torch.float64)
    tensors = {n: p.detach().cpu().double() for n, p in model.named_parameters()}
    others = {
        n: b.detach().cpu().double() if b.is_floating_point() else b.cpu() for n, b in model.named_buffers()
    }
    with torch.no_grad():
        before = functional_call(model, {**tensors, **others}, (x,)).flatten()
        after = functional_call(
            model, {**{n: factor * p for n, p in tensors.items()}, **others}, (x,)
        ).flatten()
    alive = (before != 0) | (after != 0)
    before, after = before[alive], after[alive]
    if not len(before) or not bool((before * after > 0).all()):
        return None
    degrees = torch.log(after / before) / math.log(factor)
    return float(degrees.mean()) if float(degrees.max() - degrees.min()) < 1e-6 else None
