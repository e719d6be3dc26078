"""Puts an attack together: which equation, in which search space, by which path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reconlib.attack.check import ModelReport, check_model
from reconlib.attack.closed_form import ClosedForm
from reconlib.attack.conv import ConvolutionLayer
from reconlib.attack.equations import Equation, at_temperature, equation_named
from reconlib.attack.generic import GenericStationarity
from reconlib.attack.layers import Chain, read_chain
from reconlib.attack.mlp import MatrixLayer
from reconlib.attack.products import Products
from reconlib.attack.rowspace import Pixels, RowSpace, row_space
from reconlib.attack.settings import AttackSettings
from reconlib.attack.terms import LaterLayer

# Buffers per hidden unit and candidate in the closed form, and what a double-backward graph holds.
_BUFFERS = {"closed form": 5, "generic": 14}


@dataclass(frozen=True)
class Problem:
    """A stationarity loss over candidates in a search space, ready to be descended."""

    stationarity: ClosedForm | GenericStationarity
    space: Pixels | RowSpace
    equation: Equation
    report: ModelReport
    labels: Tensor | None  # (m,)
    candidates: int  # m
    scale: float  # all parameters were multiplied by this
    chunk: int
    device: torch.device
    caveats: tuple[str, ...]

    @property
    def columns(self) -> int:
        """Multipliers per candidate."""
        return self.equation.columns(self.report.outputs)

    def multiplier_unit(self) -> float:
        """Factor from the search's multipliers to those of θ = Σ λ_i ∇o_i in the model's own scale."""
        if self.report.degree is None:  # then nothing was rescaled
            return 1 / self.candidates
        return self.scale ** (self.report.degree - 2) / self.candidates


def device_of_choice() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def build_problem(
    model: nn.Module,
    settings: AttackSettings,
    *,
    labels: Tensor | None = None,
    device: torch.device | str | None = None,
) -> Problem:
    """Check the model, choose the fast path if it has one, and find the search space."""
    device = device_of_choice() if device is None else torch.device(device)
    dtype = getattr(torch, settings.dtype)
    equation = equation_named(settings.equation)
    report = check_model(model, settings.equation, settings.input_shape)
    caveats = list(report.caveats)
    scale = _scale(model, settings, report, caveats)
    if report.degree is not None:
        equation = at_temperature(equation, scale**report.degree)
    weights = _layer_weights(model, settings)
    chain = read_chain(model)
    space: Pixels | RowSpace = Pixels(math.prod(report.input_shape))
    if chain is not None:
        chain = chain.to(dtype, device).rescaled(scale)
        space = _row_space(chain, settings, caveats) or space
    elif settings.rank is not None:
        caveats.append("no closed form for this module: automatic differentiation over pixels")

    m = settings.candidates
    if m is None:
        if not isinstance(space, RowSpace):
            raise ValueError(
                "candidates=None takes twice the rank of the row space, and this search is in pixels"
            )
        m = 2 * space.spectrum.rank
    chunk = settings.chunk or chunk_for(model, report, settings)
    engine: ClosedForm | GenericStationarity
    if chain is None:
        per_parameter = [
            weights[layer] * (settings.bias_weight if name.endswith("bias") else 1.0)
            for name, layer in _layer_of_parameters(model)
        ]
        engine = GenericStationarity(
            model, equation, report.input_shape, weights=per_parameter, scale=scale, dtype=dtype,
            device=device, chunk=chunk,
        )  # fmt: skip
    else:
        engine = closed_form(
            chain, space, equation, report.input_shape, weights, settings.bias_weight, chunk=chunk
        )
    chosen = equation.labels(m, report.outputs) if labels is None else labels[torch.arange(m) % len(labels)]
    chosen = None if chosen is None else chosen.to(device)
    return Problem(engine, space, equation, report, chosen, m, scale, min(chunk, m), device, tuple(caveats))


def closed_form(
    chain: Chain,
    space: Pixels | RowSpace,
    equation: Equation,
    input_shape: Sequence[int],
    weights: Sequence[float] | None = None,
    bias_weight: float = 1.0,
    *,
    chunk: int | None = None,
) -> ClosedForm:
    """The fast path for a chain; candidates are coordinates of `space`."""
    factors = [1.0] * chain.depth if weights is None else list(weights)
    first: MatrixLayer | ConvolutionLayer
    products = Products()
    factor, bias_factor = factors[0], factors[0] * bias_weight
    if chain.stride is not None and chain.padding is not None:
        first = ConvolutionLayer(
            chain.weights[0], chain.biases[0], input_shape, chain.stride, chain.padding,
            factor=factor, bias_factor=bias_factor,
        )  # fmt: skip
    elif isinstance(space, RowSpace):
        first = MatrixLayer(
            chain.weights[0] @ space.basis.T, chain.biases[0], products,
            factor=factor, bias_factor=bias_factor,
            stretch=space.stretch, column_weights=space.column_weights,
        )  # fmt: skip
    else:
        first = MatrixLayer(
            chain.weights[0], chain.biases[0], products, factor=factor, bias_factor=bias_factor
        )
    later = [
        LaterLayer(w, b, factor, factor * bias_weight)
        for w, b, factor in zip(chain.weights[1:], chain.biases[1:], factors[1:], strict=True)
    ]
    return ClosedForm(first, later, equation, products, chunk=chunk)


def chunk_for(model: nn.Module, report: ModelReport, settings: AttackSettings) -> int:
    """Candidates per pass that fit into `settings.memory`."""
    return max(1, int(settings.memory * 1e9 / bytes_per_candidate(model, report, settings)))


def bytes_per_candidate(model: nn.Module, report: ModelReport, settings: AttackSettings) -> int:
    """Working memory that one more candidate in a pass costs."""
    units = [math.prod(report.input_shape)]
    hooks = [
        module.register_forward_hook(lambda _m, _i, out: units.append(out[0].numel()))
        for module in model.modules()
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd)
    ]
    like = next(model.parameters())
    try:
        with torch.no_grad():
            model(torch.zeros(1, *report.input_shape, dtype=like.dtype, device=like.device))
    finally:
        for hook in hooks:
            hook.remove()
    kind = "generic" if report.path == "generic" else "closed form"
    return _BUFFERS[kind] * sum(units) * (4 if settings.dtype == "float32" else 8)


def _row_space(chain: Chain, settings: AttackSettings, caveats: list[str]) -> RowSpace | None:
    """The span of the data if the settings ask for it and the first layer shows it."""
    if settings.rank is None:
        return None
    if chain.convolutional:
        caveats.append("the kernel of a convolution spans patches, not images: the search is over pixels")
        return None
    found = row_space(chain.weights[0], settings.rank, spread=settings.spread, whitening=settings.whitening)
    if settings.rank == "auto" and not found.spectrum.revealing:
        caveats.append(
            f"the first layer's {len(found.spectrum.singular_values)} singular values show no end of the "
            "data's span (too few rows for so many samples): the search is over pixels"
        )
        return None
    return found


def _scale(model: nn.Module, settings: AttackSettings, report: ModelReport, caveats: list[str]) -> float:
    if settings.normalise is None:
        return 1.0
    if report.degree is None:
        caveats.append("the network is not homogeneous, so it is attacked in its own scale")
        return 1.0
    squared = sum(float(p.detach().double().square().sum()) for p in model.parameters())
    return math.sqrt(settings.normalise / squared)


def _layer_of_parameters(model: nn.Module) -> list[tuple[str, int]]:
    """Parameters that share a module share a layer number."""
    owners: dict[str, int] = {}
    return [
        (name, owners.setdefault(name.rpartition(".")[0], len(owners)))
        for name, _ in model.named_parameters()
    ]


def _layer_weights(model: nn.Module, settings: AttackSettings) -> list[float]:
    layers = 1 + max(layer for _, layer in _layer_of_parameters(model))
    if settings.layer_weights and len(settings.layer_weights) != layers:
        raise ValueError(
            f"{len(settings.layer_weights)} layer_weights for a network of {layers} layers with parameters: "
            "give one per layer, or none"
        )
    return list(settings.layer_weights) or [1.0] * layers
