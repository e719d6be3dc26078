"""First layer of a fully connected network, in pixels or in the coordinates of a row space."""

from __future__ import annotations

import torch
from torch import Tensor

from reconlib.attack.products import Products
from reconlib.attack.terms import squared_norm


class MatrixLayer:
    """z = F u + b for candidates in coordinates u, with the loss Σ_k g_k ‖T_k − (δᵀu)_k‖² over columns k.

    For coordinates x = τ∘u and column weights q² on ‖W − δᵀx‖² this is F = W τ, T = W/τ, g = w q² τ²;
    in pixels F = T = W and g = w.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        products: Products,
        *,
        factor: float = 1.0,
        bias_factor: float = 1.0,
        stretch: Tensor | None = None,
        column_weights: Tensor | None = None,
    ):
        ones = torch.ones(weight.shape[1], dtype=weight.dtype, device=weight.device)
        stretch = ones if stretch is None else stretch
        column_weights = ones if column_weights is None else column_weights
        self.products = products
        self.weight = products.constant((weight * stretch).contiguous())
        self.aim = (weight / stretch).contiguous()
        self.columns = factor * column_weights * stretch.square()
        self.plain = bool((self.columns == self.columns[0]).all())
        self.bias = bias
        self.bias_factor = bias_factor if bias is not None else 0.0
        self.width = weight.shape[0]
        self.residual = torch.empty_like(self.weight)
        self.bias_residual = torch.empty_like(bias) if bias is not None and bias_factor else None
        self.target = float((self.aim.square().sum(0) * self.columns).sum())
        if bias is not None:
            self.target += self.bias_factor * float(bias.square().sum())

    def forward(self, x: Tensor, out: Tensor) -> None:
        self.products.mm(x, self.weight.T, out)
        if self.bias is not None:
            out += self.bias

    def reset(self) -> None:
        self.residual.copy_(self.aim)
        if self.bias_residual is not None and self.bias is not None:
            self.bias_residual.copy_(self.bias)

    def subtract(self, delta: Tensor, x: Tensor) -> None:
        self.products.addmm(self.residual, delta.T, x, -1)
        if self.bias_residual is not None:
            self.bias_residual -= delta.sum(0)

    def weigh(self) -> Tensor:
        """The layer's share of the loss; the residuals are multiplied by their weights for the tangents."""
        if self.plain:
            loss = self.columns[0] * squared_norm(self.residual)
            if float(self.columns[0]) != 1.0:
                self.residual.mul_(self.columns[0])
        else:
            loss = (torch.linalg.vector_norm(self.residual, dim=0).square() * self.columns).sum()
            self.residual.mul_(self.columns)
        if self.bias_residual is not None:
            loss = loss + self.bias_factor * self.bias_residual.square().sum()
            self.bias_residual.mul_(self.bias_factor)
        return loss

    def tangent(self, x: Tensor, out: Tensor) -> None:
        self.products.mm(x, self.residual.T, out)
        if self.bias_residual is not None:
            out += self.bias_residual

    def pull_back(self, delta: Tensor, e: Tensor | None, out: Tensor) -> None:
        self.products.mm(delta, self.residual, out)
        if e is not None:
            self.products.addmm(out, e, self.weight)

    def gram(self, delta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        between = delta @ delta.T
        weighted = x * self.columns
        along = ((delta @ self.aim) * weighted).sum(1)
        products = between * (x @ weighted.T + self.bias_factor)
        if self.bias is not None and self.bias_factor:
            along = along + self.bias_factor * (delta @ self.bias)
        return products, along
