"""torchvision beside a CPU build of torch: its CUDA-linked extension does not load there.

`import torchvision` then stops at an operator that the extension should have registered. Declaring
the operators' schemas first lets datasets, transforms and `make_grid` work; `ops.nms` stays unavailable.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

_MISSING = "operator torchvision::nms does not exist"
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[torch.library.Library] = []  # the schemas vanish when the library object does


def import_torchvision(submodule: str = "") -> ModuleType:
    """Import torchvision (or `torchvision.<submodule>`), declaring the operators only if they are missing."""
    name = f"torchvision.{submodule}" if submodule else "torchvision"
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        if _MISSING not in str(error):
            raise
    for loaded in [m for m in sys.modules if m == "torchvision" or m.startswith("torchvision.")]:
        del sys.modules[loaded]  # half-imported by the failure above
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(operator + _SCHEMA)
    _declared.append(library)
    return importlib.import_module(name)
