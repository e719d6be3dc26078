"""The stationarity loss of any module by automatic differentiation: slow, and just what the papers write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from reconlib.attack.activations import SmoothedReLUs
from reconlib.attack.equations import Equation


class GenericStationarity:
    """Σ_p w_p ‖p − (1/m) Σ_i l_i ∇_p (y_i · Φ(x_i))‖² over a module's parameters p, with its gradients.

    One weight per parameter tensor, in the order of `named_parameters`; all of them are multiplied by
    `scale` first. With several chunks the sum
    over candidates is formed first and each chunk's gradient is taken after, which is the same number.
    """

    def __init__(
        self,
        model: nn.Module,
        equation: Equation,
        input_shape: Sequence[int],
        *,
        weights: Sequence[float] | None = None,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
        chunk: int | None = None,
    ):
        self.model = model
        self.equation = equation
        self.input_shape = tuple(input_shape)
        self.chunk = chunk
        self.names = [name for name, _ in model.named_parameters()]
        self.parameters = [
            scale * p.detach().to(device=device, dtype=dtype) for _, p in model.named_parameters()
        ]
        self.buffers = {
            name: b.to(device=device, dtype=dtype if b.is_floating_point() else b.dtype)
            for name, b in model.named_buffers()
        }
        self.weights = [1.0] * len(self.parameters) if weights is None else [float(w) for w in weights]
        if len(self.weights) != len(self.parameters):
            raise ValueError(
                f"{len(self.weights)} weights for {len(self.parameters)} parameter tensors: "
                f"{', '.join(self.names)}"
            )
        #: the loss when no candidate contributes
        self.target = sum(
            w * float(p.square().sum()) for w, p in zip(self.weights, self.parameters, strict=True)
        )

    def __call__(
        self, x: Tensor, multipliers: Tensor, labels: Tensor | None, alpha: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss, its gradient in the candidates (m, d) and in the multipliers (m, k)."""
        m = len(x)
        chunk = self.chunk or m
        if chunk >= m:
            x, multipliers = x.detach().requires_grad_(), multipliers.detach().requires_grad_()
            total = self._sum(x, multipliers, labels, alpha, m, graph=True)
            loss = self._weighted((p - g).square() for p, g in zip(self.parameters, total, strict=True))
            gx, gl = torch.autograd.grad(loss, (x, multipliers), materialize_grads=True)
            return loss.detach(), gx, gl
        return self._chunked(x, multipliers, labels, alpha, chunk)

    def _chunked(
        self, x: Tensor, multipliers: Tensor, labels: Tensor | None, alpha: float, chunk: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        m = len(x)
        parts = [slice(i, min(i + chunk, m)) for i in range(0, m, chunk)]
        residuals = [p.clone() for p in self.parameters]
        for part in parts:
            total = self._sum(x[part], multipliers[part], _of(labels, part), alpha, m, graph=False)
            for residual, g in zip(residuals, total, strict=True):
                residual -= g
        loss = self._weighted(r.square() for r in residuals)
        gradients_x, gradients_l = [], []
        for part in parts:
            xs, ls = x[part].detach().requires_grad_(), multipliers[part].detach().requires_grad_()
            total = self._sum(xs, ls, _of(labels, part), alpha, m, graph=True)
            # d‖r‖² = −2 r·d(sum); the residual of the whole sum is a constant here.
            inner = -2 * self._weighted(r * g for r, g in zip(residuals, total, strict=True))
            gx, gl = torch.autograd.grad(inner, (xs, ls), materialize_grads=True)
            gradients_x.append(gx)
            gradients_l.append(gl)
        return loss, torch.cat(gradients_x), torch.cat(gradients_l)

    def gram(self, x: Tensor, labels: Tensor | None, alpha: float) -> tuple[Tensor, Tensor]:
        """⟨g_i, g_j⟩ and ⟨g_i, θ⟩ for the candidates' parameter gradients g_i, weighted; one by one."""
        unit = torch.ones(1, 1, dtype=x.dtype, device=x.device)
        root = [w**0.5 for w in self.weights]
        flat = lambda tensors: torch.cat([r * t.flatten() for r, t in zip(root, tensors, strict=True)])  # noqa: E731
        rows = [
            flat(self._sum(x[i : i + 1], unit, _of(labels, slice(i, i + 1)), alpha, 1, graph=False))
            for i in range(len(x))
        ]
        stacked = torch.stack(rows)
        return stacked @ stacked.T, stacked @ flat(self.parameters)

    def _weighted(self, terms: Iterable[Tensor]) -> Tensor:
        return torch.stack([w * term.sum() for w, term in zip(self.weights, terms, strict=True)]).sum()

    def _leaves(self) -> list[Tensor]:
        return [p.detach().requires_grad_() for p in self.parameters]

    def _apply(self, leaves: list[Tensor], x: Tensor, alpha: float) -> Tensor:
        values = {**dict(zip(self.names, leaves, strict=True)), **self.buffers}
        with SmoothedReLUs(alpha):
            out = functional_call(self.model, values, (x.reshape(-1, *self.input_shape),))
        return out.reshape(len(x), -1)

    def _sum(
        self, x: Tensor, multipliers: Tensor, labels: Tensor | None, alpha: float, m: int, graph: bool
    ) -> list[Tensor]:
        leaves = self._leaves()
        out = self._apply(leaves, x, alpha)
        # y is no function of θ here, but it is one of x where the equation says so.
        steady = out.detach()
        if graph and self.equation.curvature is not None:
            steady = self._apply(self.parameters, x, alpha)
        y = self.equation.coefficients(steady, labels)
        combined = (y * multipliers * out).sum() / m
        return list(torch.autograd.grad(combined, leaves, create_graph=graph, materialize_grads=True))


def _of(labels: Tensor | None, part: slice) -> Tensor | None:
    return None if labels is None else labels[part]
