"""What every test runs under: one thread, so that numbers repeat, and no window system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib
import pytest

# Before torch and numpy are first imported, and inherited by every process that a test starts.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"
# Kernels and tools come from this interpreter's environment, also when it was started by its path.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

# Not through the environment: kernels started by tests need their own inline backend.
matplotlib.use("agg")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(autouse=True)
def one_thread_and_a_fixed_seed() -> None:
    """A test may change either; the next one starts from here again."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
