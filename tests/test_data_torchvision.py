"""torchvision beside the installed torch, whichever build it is, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import reconlib.data
print("imported by the package:", "torchvision" in sys.modules)

import reconlib._torchvision as shim
datasets, transforms, utils = map(shim.import_torchvision, ("datasets", "transforms", "utils"))
import numpy, torch, torchvision
assert shim.import_torchvision() is torchvision
print(datasets.CIFAR10.base_folder, tuple(utils.make_grid(torch.rand(4, 3, 8, 8), nrow=2).shape))
print(tuple(transforms.ToTensor()(numpy.zeros((5, 6, 3), "uint8")).shape))
loads = torchvision.extension._has_ops()
print("declared only where the extension does not load:", len(shim._declared) == (not loads))
"""


def test_datasets_transforms_and_make_grid_work() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "imported by the package: False",
        "cifar-10-batches-py (3, 22, 22)",
        "(3, 5, 6)",
        "declared only where the extension does not load: True",
    ]


def test_an_unknown_submodule_is_an_ordinary_import_error() -> None:
    from reconlib._torchvision import import_torchvision

    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        import_torchvision("no_such_part")
