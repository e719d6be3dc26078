"""What an attack is told and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor


@dataclass(frozen=True)
class AttackSettings:
    """Everything that determines an attack on given weights; re-running from it gives the same candidates.

    The stationarity loss is Σ_l w_l ‖θ_l − (1/m) Σ_i l_i ∇_θl o_i‖² over the layers l. With
    `whitening=0, spread=0, rank=None, normalise=None` it is the papers' own loss over pixels.
    """

    equation: str = "binary"  # a key of EQUATIONS
    candidates: int | None = 1000  # m; None: twice the rank found in the first layer
    steps: int = 2000
    restarts: int = 1
    # α and the rates go through their schedules so many times within `steps`: at a small α, candidates that
    # already look like images move on to where a larger brightness and smaller multipliers explain more.
    cycles: int = 1
    seed: int = 0
    # Each neuron's differences from so many neighbours join the pool: no search; 0: the papers' search alone.
    differences: int = 0

    # Where the search happens, and in which units.
    rank: int | Literal["auto"] | None = "auto"  # directions of the first layer; None searches in pixels
    spread: float = 1 / 3  # a direction's step is its (relative singular value)^spread
    whitening: float = 0.5  # a direction's residual weighs (relative singular value)^-whitening
    normalise: float | None = 110.0  # ‖θ‖² after rescaling all layers alike (homogeneous networks only)
    layer_weights: tuple[float, ...] = ()  # w_l, one per layer; empty: all 1; 0 leaves a layer out
    bias_weight: float = 1.0  # factor on w_l for the biases

    # The derivative of ReLU is σ(αz); α goes geometrically from the first value to the second.
    alpha: tuple[float, float] = (10.0, 200.0)

    # Starts.
    start_scale: float = 0.02  # σ of the candidates' start
    start_noise: float = 1.0  # share of noise in a start from given images: 0 the images, 1 noise alone

    # Optimiser.
    optimiser: str = "adam"  # a key of OPTIMISERS
    rate: float = 0.02
    multiplier_rate: float = 0.01
    schedule: Literal["cosine", "constant"] = "cosine"

    # Multipliers: descended together with the candidates, or solved for every `solve_every` steps.
    multipliers: Literal["gradient", "nnls"] = "gradient"
    solve_every: int = 20
    multiplier_min: float = 0.1  # λ_min
    multiplier_penalty: float = 5.0

    # Priors, computed on every `prior_every`-th step with so many times the weight.
    range_weight: float = 1.0
    variation_weight: float = 0.0
    prior_every: int = 4

    # Machine.
    dtype: Literal["float32", "float64"] = "float32"
    # Share of the steps, from the first, whose products are rounded to bfloat16, where float32 is asked
    # for and the machine is faster with it. 0 where the residual is to fall below about 0.1 %.
    rounded_share: float = 0.9
    chunk: int | None = None  # candidates per pass; None: as many as `memory` allows
    memory: float = 2.0  # GB for the passes' working set
    checkpoint_every: int = 200
    input_shape: tuple[int, ...] | None = None  # for modules that do not say theirs

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer_weights", tuple(float(w) for w in self.layer_weights))
        object.__setattr__(self, "alpha", tuple(float(a) for a in self.alpha))
        if self.input_shape is not None:
            object.__setattr__(self, "input_shape", tuple(int(s) for s in self.input_shape))
        for name in ("steps", "restarts", "cycles", "solve_every", "prior_every", "checkpoint_every"):
            _at_least(name, getattr(self, name), 1)
        _at_least("differences", self.differences, 0)
        for name in ("candidates", "chunk"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1)
        if not (self.rank in (None, "auto") or (isinstance(self.rank, int) and self.rank >= 1)):
            raise ValueError(
                f"rank must be a positive whole number, 'auto' or None (pixels), not {self.rank!r}"
            )
        if len(self.alpha) != 2 or not all(a > 0 for a in self.alpha):
            raise ValueError(f"alpha must be two positive numbers, first and last value, not {self.alpha}")
        if any(w < 0 for w in self.layer_weights) or (self.layer_weights and not any(self.layer_weights)):
            raise ValueError(f"layer_weights must be ≥ 0 with at least one above 0, not {self.layer_weights}")
        if not 0 <= self.start_noise <= 1:
            raise ValueError(f"start_noise is a share between 0 and 1, not {self.start_noise}")
        if not 0 <= self.rounded_share <= 1:
            raise ValueError(f"rounded_share is a share between 0 and 1, not {self.rounded_share}")
        for name in ("rate", "multiplier_rate", "memory"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.normalise is not None and not self.normalise > 0:
            raise ValueError(f"normalise is a positive ‖θ‖² or None, not {self.normalise}")
        _one_of("schedule", self.schedule, ("cosine", "constant"))
        _one_of("multipliers", self.multipliers, ("gradient", "nnls"))
        _one_of("dtype", self.dtype, ("float32", "float64"))


@dataclass(frozen=True)
class Reconstruction:
    """Candidates of all restarts together, in the coordinates that the network reads (mean removed)."""

    candidates: Tensor  # (m, *input_shape) float32
    multipliers: Tensor  # (m,), or (m, outputs) for general losses of vector outputs: θ = Σ λ_i ∇o_i
    labels: Tensor | None  # (m,) int64; None for general losses
    run: Tensor  # (m,) int64: the restart that a candidate came from, −1 for differences of neurons
    residual: Tensor  # (runs,) weighted stationarity loss at the end, relative to that of no candidates
    history: dict[str, list[float]]
    settings: AttackSettings
    caveats: tuple[str, ...] = field(default=())


def _at_least(name: str, value: int, least: int) -> None:
    if int(value) != value or value < least:
        raise ValueError(f"{name} must be a whole number ≥ {least}, not {value}")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
