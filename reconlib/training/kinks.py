"""The distance to zero of the subdifferential: the slopes of pre-activations near zero are free.

At z = 0 the ReLU's derivative may be any number in [0, 1] (Clarke). A network with decay ends with
many z at zero, so its gradient does not vanish, while some choice of slopes makes it vanish. This
finds that choice: the certificate that a ReLU network can have.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reconlib.training.linearised import Linearised

WIDTH = 0.05  # |z| below this share of its layer's mean |z| counts as on the kink


def kink_masks(at: Linearised, width: float = WIDTH) -> list[Tensor]:
    """Which (sample, neuron) pairs of every hidden layer sit on the kink."""
    return [z.abs() <= width * z.abs().mean() for z in at.before[:-1]]


def subgradient_residual(
    at: Linearised,
    derivatives: Tensor,
    decay: float,
    start: list[Tensor],
    *,
    width: float = WIDTH,
    steps: int = 60,
) -> tuple[float, list[Tensor]]:
    """min over slopes in [0, 1] on the kinks of ‖∇ + decay·θ‖ / (decay·‖θ‖), and those slopes.

    Projected accelerated gradient on all slopes at once, from `start`; the value returned is
    attained by the slopes returned, so it is an upper bound of the true distance.
    """
    masks = kink_masks(at, width)
    hard = at.slopes(None)
    slopes = [torch.where(m, s, h) for m, s, h in zip(masks, start, hard, strict=True)]
    value, gradient = _value_and_gradient(at, derivatives, decay, slopes)
    best, best_slopes, rate = value, slopes, 1.0 / max(float(g.abs().max()) for g in gradient)
    ahead, previous, t = slopes, slopes, 1.0
    for _ in range(steps):
        trial = [
            torch.where(m, (s - rate * g).clamp(0, 1), h)
            for m, s, g, h in zip(masks, ahead, gradient, hard, strict=True)
        ]
        value, _ = _value_and_gradient(at, derivatives, decay, trial, needed=False)
        if value < best:
            best, best_slopes = value, trial
            after = (1 + (1 + 4 * t * t) ** 0.5) / 2
            ahead = [s + (t - 1) / after * (s - p) for s, p in zip(trial, previous, strict=True)]
            previous, t, rate = trial, after, rate * 1.2
        else:
            ahead, previous, t, rate = best_slopes, best_slopes, 1.0, rate / 3
        _, gradient = _value_and_gradient(at, derivatives, decay, ahead)
    scale = decay * float(at.norms.norm())
    return (2 * best) ** 0.5 / scale, best_slopes


def _value_and_gradient(
    at: Linearised, derivatives: Tensor, decay: float, slopes: list[Tensor], needed: bool = True
) -> tuple[float, list[Tensor]]:
    """½‖∇ + decay·θ‖² and its gradient with respect to the slopes.

    With R_k the residual of layer k and δ_k its signal: the residual's pull on δ is R_k applied to
    the layer's input, and it reaches the slopes below through the same chain as the signals.
    """
    signals = dict(at.signals(derivatives, slopes))
    inputs = [torch.relu(z) for z in at.before[:-1]]
    layers = at.engine.by_layer(at.theta)
    gradients = at.gradient(derivatives, slopes)
    flat = [g + decay * w for g, w in zip(gradients, layers, strict=True)]
    value = 0.5 * sum(float(r.square().sum()) for r in flat)
    if not needed:
        return value, []
    residual, biases = at.engine.views(torch.cat([flat[0][:-1], *flat[1:], flat[0][-1:]]))
    pull = torch.empty_like(at.before[0])
    at.engine.first.forward(residual[0], None, pull)  # ⟨R₁, ∂∇₁/∂δ₁⟩: R₁ applied to the inputs
    out = []
    for k in range(1, len(at.weights)):
        out.append(pull * (signals[k] @ at.weights[k]))
        above = (pull * slopes[k - 1]) @ at.weights[k].T + inputs[k - 1] @ residual[k].T
        bias = biases[k]
        pull = above if bias is None else above + bias
    return value, out
