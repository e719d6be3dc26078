"""The stationarity loss of a ReLU chain and its gradients, written out as matrix products.

Candidate i has pre-activations z_l, h_l = relu(z_l) and the smoothed derivative p_l = σ(α z_l). Its
share of the parameter sum is δ_lᵀ h_{l−1} with c = y λ/m at the output and δ_l = (δ_{l+1} W_{l+1}) ∘ p_l.
With the weighted residuals R_l = w_l (W_l − Σ_i δ_lᵀ h_{l−1}) the gradient of Σ_l w_l ‖·‖² is −2 times
that of Σ_i c_i · ȯ_i, where ȯ is the outputs' derivative along R: one forward sweep of tangents
ż_{l+1} = (p_l ∘ ż_l) W_{l+1}ᵀ + h_l R_{l+1}ᵀ, which also is the gradient in the multipliers, and one
sweep back, e_l = p_l ∘ f_l + α δ_l ∘ ż_l ∘ (1 − p_l) with f_{l−1} = e_l W_l + δ_l R_l.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reconlib.attack.equations import Equation
from reconlib.attack.products import Products
from reconlib.attack.terms import FirstLayer, LaterLayer, row_blocks, squared_norm


class ClosedForm:
    """Loss and gradients with respect to candidates and multipliers, without any graph.

    `chunk` bounds the working set: with fewer rows than candidates the forward and backward sweeps are
    done twice, once to form the residuals and once to use them, and the result is the same.
    """

    def __init__(
        self,
        first: FirstLayer,
        later: list[LaterLayer],
        equation: Equation,
        products: Products,
        *,
        chunk: int | None = None,
    ):
        self.products = products
        for layer in later:
            products.constant(layer.weight)
        self.first = first
        self.later = later
        self.equation = equation
        self.chunk = chunk
        #: the loss when no candidate contributes
        self.target = first.target + sum(layer.target for layer in later)
        self._widths = [first.width, *(layer.weight.shape[0] for layer in later)]
        self._buffers: dict[tuple[str, int], Tensor] = {}
        self._crossed: set[int] = set()
        self._cross: dict[int, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def __call__(
        self, x: Tensor, multipliers: Tensor, labels: Tensor | None, alpha: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss, its gradient in the candidates (m, d) and in the multipliers (m, k).

        The gradients are views of buffers that the next call overwrites.
        """
        m = len(x)
        chunk = min(self.chunk or m, m)
        parts = [slice(i, min(i + chunk, m)) for i in range(0, m, chunk)]
        self._reserve(x, chunk)
        self._crossed = {k for k in range(len(self.later)) if len(parts) == 1 and self._cross_pays(k, m)}
        gradient_x = self._buffer("gradient", 0, m, x.shape[1], x)
        gradient_l = torch.empty_like(multipliers)

        self._reset()
        for part in parts:
            sweep = self._sweep(x[part], multipliers[part] / m, _of(labels, part), alpha)
            self._accumulate(x[part], *sweep)
        loss = self._weigh(sweep[1])
        for part in parts:
            if len(parts) > 1:
                sweep = self._sweep(x[part], multipliers[part] / m, _of(labels, part), alpha)
            tangent = self._tangent(x[part], sweep[1])
            per_output = (-2 / m) * sweep[0] * tangent
            gradient_l[part] = per_output if multipliers.shape[1] > 1 else per_output.sum(1, keepdim=True)
            e = self._curved(sweep[0], multipliers[part] / m, _of(labels, part), tangent)
            self._reverse(sweep[1], alpha, gradient_x[part], e)
        return loss, gradient_x, gradient_l

    @torch.no_grad()
    def gram(self, x: Tensor, labels: Tensor | None, alpha: float) -> tuple[Tensor, Tensor]:
        """⟨g_i, g_j⟩ and ⟨g_i, θ⟩ for the candidates' parameter gradients g_i, weighted: (m, m), (m,)."""
        self._reserve(x, len(x))
        self._crossed = set()
        _, deltas = self._sweep(x, torch.ones(len(x), 1, dtype=x.dtype, device=x.device), labels, alpha)
        products, along = self.first.gram(deltas[0], x)
        for k, layer in enumerate(self.later):
            h, delta = self._rows("h", k, len(x)), deltas[k + 1]
            if layer.factor:
                products += layer.factor * (delta @ delta.T) * (h @ h.T)
                along += layer.factor * ((h @ layer.weight.T) * delta).sum(1)
            if layer.bias is not None and layer.bias_factor:
                products += layer.bias_factor * (delta @ delta.T)
                along += layer.bias_factor * (delta @ layer.bias)
        return products, along

    # Sweeps over one chunk; all arrays have the chunk's candidates as rows.

    def _forward(self, x: Tensor, alpha: float) -> Tensor:
        rows, hidden = len(x), len(self.later)
        z = self._rows("p", 0, rows)
        self.first.forward(x, z)
        for k, layer in enumerate(self.later):
            h = self._rows("h", k, rows)
            for block in row_blocks(z):
                torch.clamp_min(z[block], 0, out=h[block])
                z[block].mul_(alpha).sigmoid_()  # z becomes p
            z = self.products.mm(h, layer.weight.T, self._rows("p", k + 1, rows))
            if k in self._crossed and k + 1 < hidden:
                self._rows("z", k + 1, rows).copy_(z)
            if layer.bias is not None:
                z += layer.bias
        return z

    def _sweep(
        self, x: Tensor, scaled: Tensor, labels: Tensor | None, alpha: float
    ) -> tuple[Tensor, list[Tensor]]:
        """Forward and back: coefficients y (b, C) and δ_l of every layer, the last being y λ/m."""
        rows, hidden = len(x), len(self.later)
        out = self._forward(x, alpha)
        y = self.equation.coefficients(out, labels)
        deltas = [y * scaled]
        for k in reversed(range(hidden)):
            delta = self.products.mm(deltas[0], self.later[k].weight, self._rows("delta", k, rows))
            deltas.insert(0, delta.mul_(self._rows("p", k, rows)))
        return y, deltas

    def _accumulate(self, x: Tensor, y: Tensor, deltas: list[Tensor]) -> None:
        self.first.subtract(deltas[0], x)
        for k, layer in enumerate(self.later):
            if layer.residual is not None and k not in self._crossed:
                self.products.addmm(layer.residual, deltas[k + 1].T, self._rows("h", k, len(x)), -1)
            if layer.bias_residual is not None:
                layer.bias_residual -= deltas[k + 1].sum(0)

    def _tangent(self, x: Tensor, deltas: list[Tensor]) -> Tensor:
        rows = len(x)
        t = self._rows("t", 0, rows)
        self.first.tangent(x, t)
        for k, layer in enumerate(self.later):
            moved = torch.mul(self._rows("p", k, rows), t, out=self._rows("f", k, rows))
            t = self.products.mm(moved, layer.weight.T, self._rows("t", k + 1, rows))
            if k in self._crossed:
                t.add_(self._rows("z", k + 1, rows), alpha=layer.factor)
                self.products.addmm(t, self._cross[k][0], deltas[k + 1], -layer.factor)
            elif layer.residual is not None:
                self.products.addmm(t, self._rows("h", k, rows), layer.residual.T)
            if layer.bias_residual is not None:
                t += layer.bias_residual
        return t

    def _curved(self, y: Tensor, scaled: Tensor, labels: Tensor | None, tangent: Tensor) -> Tensor | None:
        """e at the outputs: how y itself moves with them, where it does."""
        if self.equation.curvature is None or labels is None:
            return None
        return scaled * self.equation.curvature(y, labels, tangent)

    def _reverse(self, deltas: list[Tensor], alpha: float, out: Tensor, e: Tensor | None) -> None:
        rows = len(out)
        for k in reversed(range(len(self.later))):
            layer, delta = self.later[k], deltas[k + 1]
            f, t, p = (self._rows(name, k, rows) for name in ("f", "t", "p"))
            if k in self._crossed:
                assert e is not None
                # (e W + δ R) with R = w (W − δᵀh), without ever forming R
                self.products.mm(torch.add(e, delta, alpha=layer.factor), layer.weight, f)
                self.products.addmm(f, self._cross[k][1], self._rows("h", k, rows), -layer.factor)
            else:
                if e is None:
                    f.zero_() if layer.residual is None else self.products.mm(delta, layer.residual, f)
                else:
                    self.products.mm(e, layer.weight, f)
                    if layer.residual is not None:
                        self.products.addmm(f, delta, layer.residual)
            for block in row_blocks(t):
                curved = t[block].mul_(deltas[k][block])
                curved.addcmul_(curved, p[block], value=-1)
                f[block].mul_(p[block]).add_(curved, alpha=alpha)
            e = f
        self.first.pull_back(deltas[0], e, out)
        out.mul_(-2)

    # Residuals of the whole sum.

    def _reset(self) -> None:
        self.first.reset()
        for k, layer in enumerate(self.later):
            if layer.residual is not None and k not in self._crossed:
                layer.residual.copy_(layer.weight)
            if layer.bias_residual is not None and layer.bias is not None:
                layer.bias_residual.copy_(layer.bias)

    def _weigh(self, deltas: list[Tensor]) -> Tensor:
        loss = self.first.weigh()
        self._cross = {}
        for k, layer in enumerate(self.later):
            if k in self._crossed:
                loss = loss + layer.factor * self._crossed_square(k, deltas[k + 1])
            elif layer.residual is not None:
                loss = loss + layer.factor * squared_norm(layer.residual)
                layer.residual.mul_(layer.factor)
            if layer.bias_residual is not None:
                loss = loss + layer.bias_factor * squared_norm(layer.bias_residual)
                layer.bias_residual.mul_(layer.bias_factor)
        return loss

    def _crossed_square(self, k: int, delta: Tensor) -> Tensor:
        """‖W − δᵀh‖² from the products between candidates, which are smaller than W for a wide input."""
        h, z = self._rows("h", k, len(delta)), self._rows("z", k + 1, len(delta))
        between = self._between("hh", k, h), self._between("dd", k, delta)
        self._cross[k] = between
        layer = self.later[k]
        return layer.square - 2 * (delta * z).sum() + (between[0] * between[1]).sum()

    def _between(self, name: str, k: int, rows: Tensor) -> Tensor:
        return self.products.mm(rows, rows.T, self._buffer(name, k, len(rows), len(rows), rows))

    def _cross_pays(self, k: int, m: int) -> bool:
        layer = self.later[k]
        if k + 1 == len(self.later) or layer.residual is None:
            return False
        rows, columns = layer.weight.shape
        return 2 * m * (rows + columns) < 3 * rows * columns

    def _reserve(self, like: Tensor, rows: int) -> None:
        """One buffer per quantity and layer, kept between steps: fresh memory is slow."""
        for k, width in enumerate(self._widths):
            for name in ("p", "t") if k == len(self.later) else ("p", "t", "h", "f", "delta"):
                self._buffer(name, k, rows, width, like)
            if 0 < k < len(self.later) and self._cross_pays(k - 1, rows):
                self._buffer("z", k, rows, width, like)

    def _buffer(self, name: str, k: int, rows: int, width: int, like: Tensor) -> Tensor:
        known = self._buffers.get((name, k))
        if known is None or known.shape != (rows, width):
            known = torch.empty(rows, width, dtype=like.dtype, device=like.device)
            self._buffers[name, k] = known
        return known

    def _rows(self, name: str, k: int, rows: int) -> Tensor:
        return self._buffers[name, k][:rows]


def _of(labels: Tensor | None, part: slice) -> Tensor | None:
    return None if labels is None else labels[part]
