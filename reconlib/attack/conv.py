"""First layer of a ConvNet: a convolution that reads candidates in pixels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from reconlib.attack.terms import row_blocks

# Numbers per block of feature maps: a convolution allocates its result, and small blocks are reused.
_BLOCK = 1 << 21


class ConvolutionLayer:
    """The same operations as for a matrix, with a kernel that is shared between positions."""

    def __init__(
        self,
        kernel: Tensor,
        bias: Tensor | None,
        input_shape: Sequence[int],
        stride: tuple[int, int],
        padding: tuple[int, int],
        *,
        factor: float = 1.0,
        bias_factor: float = 1.0,
    ):
        self.kernel = kernel
        self.bias = bias
        self.input_shape = tuple(input_shape)
        self.stride, self.padding = stride, padding
        self.factor = factor
        self.bias_factor = bias_factor if bias is not None else 0.0
        _, height, width = self.input_shape
        size = kernel.shape[2:]
        self.map_shape = (
            kernel.shape[0],
            (height + 2 * padding[0] - size[0]) // stride[0] + 1,
            (width + 2 * padding[1] - size[1]) // stride[1] + 1,
        )
        self.width = self.map_shape[0] * self.map_shape[1] * self.map_shape[2]
        self.residual = torch.empty_like(kernel)
        self.bias_residual = torch.empty_like(bias) if bias is not None and bias_factor else None
        self.target = factor * float(kernel.square().sum())
        if bias is not None:
            self.target += self.bias_factor * float(bias.square().sum())

    def forward(self, x: Tensor, out: Tensor) -> None:
        for rows in row_blocks(out, _BLOCK):
            out[rows] = self._convolve(x[rows], self.kernel, self.bias)

    def reset(self) -> None:
        self.residual.copy_(self.kernel)
        if self.bias_residual is not None and self.bias is not None:
            self.bias_residual.copy_(self.bias)

    def subtract(self, delta: Tensor, x: Tensor) -> None:
        for rows in row_blocks(delta, _BLOCK):
            maps = delta[rows].reshape(-1, *self.map_shape)
            self.residual -= self._backward(maps, x[rows], self.kernel, (False, True))[1]
            if self.bias_residual is not None:
                self.bias_residual -= maps.sum((0, 2, 3))

    def weigh(self) -> Tensor:
        """The layer's share of the loss; the residuals are multiplied by their weights for the tangents."""
        loss = self.factor * self.residual.square().sum()
        self.residual.mul_(self.factor)
        if self.bias_residual is not None:
            loss = loss + self.bias_factor * self.bias_residual.square().sum()
            self.bias_residual.mul_(self.bias_factor)
        return loss

    def tangent(self, x: Tensor, out: Tensor) -> None:
        for rows in row_blocks(out, _BLOCK):
            out[rows] = self._convolve(x[rows], self.residual, self.bias_residual)

    def pull_back(self, delta: Tensor, e: Tensor | None, out: Tensor) -> None:
        for rows in row_blocks(delta, _BLOCK):
            pulled = out[rows]
            maps = delta[rows].reshape(-1, *self.map_shape)
            pulled.copy_(self._backward(maps, pulled, self.residual, (True, False))[0].flatten(1))
            if e is not None:
                maps = e[rows].reshape(-1, *self.map_shape)
                pulled += self._backward(maps, pulled, self.kernel, (True, False))[0].flatten(1)

    def gram(self, delta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        # A kernel is small, so every candidate's own gradient can be written down: positions are summed out.
        patches = functional.unfold(
            x.reshape(-1, *self.input_shape), self.kernel.shape[2:], padding=self.padding, stride=self.stride
        )
        maps = delta.reshape(len(x), self.map_shape[0], -1)
        gradients = torch.bmm(maps, patches.transpose(1, 2)).flatten(1)
        products = self.factor * (gradients @ gradients.T)
        along = self.factor * (gradients @ self.kernel.flatten())
        if self.bias is not None and self.bias_factor:
            sums = maps.sum(2)
            products = products + self.bias_factor * (sums @ sums.T)
            along = along + self.bias_factor * (sums @ self.bias)
        return products, along

    def _convolve(self, x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
        images = x.reshape(-1, *self.input_shape)
        return functional.conv2d(images, kernel, bias, self.stride, self.padding).flatten(1)

    def _backward(self, maps: Tensor, x: Tensor, kernel: Tensor, wanted: tuple[bool, bool]) -> tuple:
        return torch.ops.aten.convolution_backward(
            maps,
            x.reshape(-1, *self.input_shape),
            kernel,
            None,
            self.stride,
            self.padding,
            (1, 1),
            False,
            (0, 0),
            1,
            (*wanted, False),
        )
