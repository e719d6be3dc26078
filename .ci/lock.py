"""Print requirements.lock: the exact version of every package that reconlib[dev] needs, as installed here.

Packages that only a CUDA build of torch brings are left out, so that one file serves CPU and GPU machines.
"""

from __future__ import annotations

from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = """\
# Written by `make lock`; used as `pip install -c requirements.lock -e .[dev]`.
# Linux, Python 3.11. The CUDA packages of torch are not listed: torch pins them itself.
"""
CUDA = ("nvidia-", "cuda-", "triton")


def closure(root: str, extras: frozenset[str]) -> dict[str, str]:
    """Name → version of everything that `root[extras]` requires in this environment, `root` excluded."""
    versions: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    queue = [(root, extras)]
    while queue:
        name, wanted = queue.pop()
        if (name, wanted) in seen or name.startswith(CUDA):
            continue
        seen.add((name, wanted))
        package = distribution(name)
        versions[name] = package.version.split("+")[0]  # 2.13.0+cpu: the build is the machine's choice
        for line in package.requires or []:
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in wanted | {""}):
                queue.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    del versions[root]
    return versions


if __name__ == "__main__":
    print(HEADER, end="")
    for name, version in sorted(closure("reconlib", frozenset({"dev"})).items()):
        print(f"{name}=={version}")
