"""Matrix products, in full precision or with operands rounded to bfloat16 where that is twice as fast."""

from __future__ import annotations

import torch
from torch import Tensor


def rounding_pays(device: torch.device) -> bool:
    """Whether the machine multiplies bfloat16 with instructions of its own."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # Without them (or on a build that cannot tell) bfloat16 is emulated, and slower than float32.
    tests = (
        getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )
    return any(test is not None and test() for test in tests)


class Products:
    """`out = a b` and `out += α a b` into given memory.

    While `rounded` is set the operands and the product have the 8 bits of bfloat16 (sums are formed in
    float32), which errs by 0.3 % at random: little against the residual that the search descends, until
    its end. `constant` matrices are rounded once.
    """

    def __init__(self) -> None:
        self.rounded = False
        self._constants: dict[int, Tensor] = {}
        self._scratch: dict[tuple[str, torch.Size], Tensor] = {}

    def constant(self, matrix: Tensor) -> Tensor:
        """Announce a matrix that will not change."""
        self._constants[matrix.data_ptr()] = matrix
        return matrix

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        if not self._worth(a, b):
            return torch.mm(a, b, out=out)
        return out.copy_(self._product(a, b, out))

    def addmm(self, out: Tensor, a: Tensor, b: Tensor, alpha: float = 1.0) -> Tensor:
        if not self._worth(a, b):
            return out.addmm_(a, b, alpha=alpha)
        return out.add_(self._product(a, b, out), alpha=alpha)

    def _worth(self, a: Tensor, b: Tensor) -> bool:
        return self.rounded and min(a.shape[0], a.shape[1], b.shape[1]) >= 32

    def _product(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        return torch.mm(self._round("a", a), self._round("b", b), out=self._memory("out", out.shape, out))

    def _round(self, role: str, matrix: Tensor) -> Tensor:
        if not matrix.is_contiguous():
            return self._round(role, matrix.T).T
        known = self._constants.get(matrix.data_ptr())
        if known is None:
            return self._memory(role, matrix.shape, matrix).copy_(matrix)
        if known.dtype != torch.bfloat16:
            known = self._constants[matrix.data_ptr()] = matrix.bfloat16()
        return known

    def _memory(self, role: str, shape: torch.Size, like: Tensor) -> Tensor:
        if (role, shape) not in self._scratch:
            self._scratch[role, shape] = torch.empty(shape, dtype=torch.bfloat16, device=like.device)
        return self._scratch[role, shape]
