"""The equation in the plane, to play with: points that explain a small network's weights, found in the page.

A network Φ(x) = Σ_k v_k ReLU(w_k·x + b_k)/√h whose first layer is fixed at random is trained on n points with
the squared error and weight decay. Its weights v then satisfy v = Σ_i λ_i φ(x_i) exactly, with the features
φ_k(x) = ReLU(w_k·x + b_k)/√h, and the attack of the papers is small enough to run inside a page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reconlib.interactive import Interactive

_SPREAD, _SHIFT = 3.0, 2.0  # deviations of w and b: kinks lie all over the square that is shown


@dataclass(frozen=True)
class RandomFeatures:
    """A trained network of h neurons in the plane; float64 throughout."""

    w: Tensor  # (h, 2), fixed
    b: Tensor  # (h,), fixed
    v: Tensor  # (h,), trained

    def features(self, x: Tensor) -> Tensor:
        """φ (n, h) of points x (n, 2): the gradient of the output with respect to v."""
        return torch.relu(x @ self.w.T + self.b) / math.sqrt(len(self.b))

    def __call__(self, x: Tensor) -> Tensor:
        return self.features(x) @ self.v


def points_in_the_plane(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """n points (n, 2) around a circle, moved at random, with labels ±1 (n,) in turn."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.arange(n, dtype=torch.float64) * 2 * math.pi / n
    moved = 0.18 * torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return 0.7 * torch.stack([angle.cos(), angle.sin()], 1) + moved, 1.0 - 2.0 * (torch.arange(n) % 2)


def fit(x: Tensor, y: Tensor, neurons: int, weight_decay: float, seed: int = 0) -> RandomFeatures:
    """The minimum of mean (Φ(x_i) − y_i)² + ½ · weight_decay · ‖v‖², in closed form."""
    generator = torch.Generator().manual_seed(seed)
    w = _SPREAD * torch.randn(neurons, 2, generator=generator, dtype=torch.float64)
    b = _SHIFT * torch.randn(neurons, generator=generator, dtype=torch.float64)
    features = RandomFeatures(w, b, torch.zeros(neurons, dtype=torch.float64)).features(x)
    curvature = 2 / len(x) * features.T @ features + weight_decay * torch.eye(neurons, dtype=torch.float64)
    return RandomFeatures(w, b, torch.linalg.solve(curvature, 2 / len(x) * features.T @ y.double()))


def multipliers(network: RandomFeatures, x: Tensor, y: Tensor, weight_decay: float) -> Tensor:
    """λ_i = −2(Φ(x_i) − y_i)/(n · weight_decay): what the training says the multipliers are."""
    return -2 * (network(x) - y) / (len(x) * weight_decay)


def residual(network: RandomFeatures, x: Tensor, multipliers: Tensor) -> float:
    """‖v − Σ λ_i φ(x_i)‖ / ‖v‖."""
    return float((network.v - multipliers @ network.features(x)).norm() / network.v.norm())


def playground(networks: Sequence[RandomFeatures], x: Tensor, y: Tensor, *, candidates: int) -> Interactive:
    """Networks of several sizes trained on x (n, 2), y (n,): drag candidates, or let the equation pull."""
    data = {
        "points": _numbers(x),
        "labels": [int(label) for label in y],
        "candidates": candidates,
        "networks": [{"w": _numbers(net.w), "b": _numbers(net.b), "v": _numbers(net.v)} for net in networks],
    }
    alt = (
        f"A square with {len(x)} hidden training points and {candidates} candidates that can be dragged, or "
        "pulled by the equation, for networks of "
        + ", ".join(str(len(net.b)) for net in networks)
        + " neurons."
    )
    choices = "".join(f'<option value="{i}">{len(net.b)}</option>' for i, net in enumerate(networks))
    body = f"""<div class="recon-plane" role="group" aria-label="{alt}">
<svg viewBox="-1.4 -1.4 2.8 2.8" aria-hidden="true"><rect x="-1.4" y="-1.4" width="2.8" height="2.8"/></svg>
<div class="recon-side"><p class="recon-meter"><span>mismatch of the weights</span> <output>–</output>
<span class="recon-bar"><span></span></span></p>
<p><label>neurons <select>{choices}</select></label></p>
<p><button type="button" data-do="pull">Let the equation pull</button>
<button type="button" data-do="scatter">Scatter again</button></p>
<p><label><input type="checkbox"> show the training points</label></p></div>
<script type="application/json">{json.dumps(data, separators=(",", ":"))}</script></div>"""
    return Interactive(body, alt, "playground")


def _numbers(values: Tensor) -> list:
    return [[round(float(v), 5) for v in row] if row.dim() else round(float(row), 5) for row in values]
