"""The multipliers that fit θ = Σ λᵢ ∇marginᵢ best: non-negative least squares on the Gram matrix."""

from __future__ import annotations

import torch
from torch import Tensor


def nonnegative(gram: Tensor, moments: Tensor, *, ridge: float = 1e-12, sweeps: int = 500) -> Tensor:
    """argmin over λ ≥ 0 of ½ λᵀ·gram·λ − momentsᵀ·λ, by block principal pivoting (Kim & Park 2011).

    gram: `(n, n)` symmetric positive semi-definite float64, moments: `(n,)`. Each sweep solves on the
    passive set and exchanges every index of the wrong sign at once; when that stops helping, only
    the largest one, which is guaranteed to end. `ridge`, relative to the trace, keeps ties solvable.
    """
    n = len(moments)
    gram = gram + ridge * gram.diagonal().mean().clamp_min(torch.finfo(gram.dtype).tiny) * torch.eye(
        n, dtype=gram.dtype
    )
    passive = torch.zeros(n, dtype=torch.bool)
    best_wrong, patience = n + 1, 3
    solution = torch.zeros_like(moments)
    tolerance = 1e-12 * float(moments.abs().max().clamp_min(torch.finfo(moments.dtype).tiny))
    for _ in range(sweeps):
        solution = torch.zeros_like(moments)
        if passive.any():
            factor = torch.linalg.cholesky(gram[passive][:, passive])
            solution[passive] = torch.cholesky_solve(moments[passive][:, None], factor)[:, 0]
        slope = gram @ solution - moments
        wrong = (passive & (solution < 0)) | (~passive & (slope < -tolerance))
        count = int(wrong.sum())
        if count == 0:
            break
        if count < best_wrong:
            best_wrong, patience = count, 3
        elif patience:
            patience -= 1
        else:
            last = int(wrong.nonzero()[-1])
            wrong = torch.zeros_like(wrong)
            wrong[last] = True
        passive = passive ^ wrong
    return solution.clamp_min(0)
