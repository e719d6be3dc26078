"""`python -m benchmarks`: run the registered cases, print a table, merge them into results.json by name."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import os
import pkgutil
import platform
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks import CASES, Case
from reconlib.files import atomic_path

RESULTS = Path(__file__).with_name("results.json")


def discover() -> None:
    """Import every module of this folder, which registers its cases."""
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"benchmarks.{module.name}")


def choose(patterns: list[str], e2e: bool) -> list[Case]:
    """Cases by name pattern if any are given, otherwise all quick ones or all end-to-end ones."""
    if not patterns:
        return [case for case in CASES.values() if case.e2e == e2e]
    chosen = [case for case in CASES.values() if any(fnmatch.fnmatch(case.name, p) for p in patterns)]
    for pattern in patterns:
        if not fnmatch.filter(CASES, pattern):
            raise SystemExit(
                f"no benchmark matches {pattern!r}; there are: {', '.join(sorted(CASES)) or 'none'}"
            )
    return chosen


def measure(case: Case) -> dict[str, Any]:
    """One entry of results.json."""
    import torch

    started = time.perf_counter()
    result = case.measure()
    return {
        "name": case.name,
        "ours": result.ours,
        "reference": result.reference,
        "ratio": result.ratio,
        "unit": result.unit,
        "seconds": round(time.perf_counter() - started, 2),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{_processor()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        **result.extra,
    }


def merge(entries: list[dict[str, Any]], path: Path = RESULTS) -> None:
    """Replace the entries of the same name, keep the others, in order of name."""
    known = {entry["name"]: entry for entry in json.loads(path.read_text())} if path.exists() else {}
    known.update({entry["name"]: entry for entry in entries})
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps([known[name] for name in sorted(known)], indent=1) + "\n")


def row(entry: dict[str, Any]) -> str:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.4g}"

    return (
        f"{entry['name']:<24}{number(entry['ours']):>12}{number(entry['reference']):>12}"
        f"{number(entry['ratio']):>10}  {entry['unit']:<10}{entry['seconds']:>8.1f} s"
    )


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="e.g. 'attack_*'")
    parser.add_argument("--e2e", action="store_true", help="the end-to-end cases instead of the quick ones")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--output", type=Path, default=RESULTS, help="default: %(default)s")
    options = parser.parse_args(arguments)

    discover()
    chosen = choose(options.only, options.e2e)
    if options.list:
        print("\n".join(f"{case.name}{'  (end to end)' if case.e2e else ''}" for case in chosen))
        return 0
    failed = []
    print(f"{'case':<24}{'ours':>12}{'reference':>12}{'ratio':>10}  {'unit':<10}{'took':>10}")
    for case in chosen:
        try:
            entry = measure(case)
        except Exception:  # the other cases still run; the exit code tells
            failed.append(case.name)
            traceback.print_exc()
            continue
        print(row(entry), flush=True)
        merge([entry], options.output)  # at once: a later case may take long, or be interrupted
    print(f"{len(chosen) - len(failed)} of {len(chosen)} measured, in {os.path.relpath(options.output)}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
