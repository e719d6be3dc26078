"""The results of a notebook: claims, metrics, controls, cost and provenance in one validated JSON file.

result = record("fig5_weight_decay", profile=profile, parameters={"seed": seed})
with result.stage("train and attack"):
    ...
result.data(task)
result.control("binary", controls)
result.claim("B5-quantity", binary_ratio=[1.8, 2.1, 1.7], ...)
result.save()
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import jsonschema

from reconlib import catalogue, provenance
from reconlib.claims import NOT_RUN, Judged, claim_from_dict, measured, verdict
from reconlib.files import atomic_path
from reconlib.text_notebooks import KEPT, PROFILES

SCHEMA_VERSION = 1
_MACHINE_PATH = re.compile(r"(^|[\s'\"=])(/(home|root|tmp|work|Users|mnt|opt|var|data)/|[A-Z]:\\)")


class Result:
    """Collects what a notebook measures; `save` judges, validates and writes it. Make one with `record`."""

    def __init__(self, notebook: str, profile: str, parameters: Mapping[str, Any], path: Path, root: Path):
        self.notebook, self.profile, self.path = notebook, profile, path
        self._root = root
        self._parameters = dict(parameters)
        self._began = time.monotonic()
        self._modules = provenance.module_hashes()
        self._claims: dict[str, dict[str, Any]] = {}
        self._metrics: dict[str, Any] = {}
        self._tables: dict[str, Any] = {}
        self._controls: dict[str, Any] = {}
        self._stages: dict[str, dict[str, Any]] = {}
        self._data: dict[str, str] = {}
        self._probes_own: set[str] = set()

    def claim(self, id: str, /, **values: float | Sequence[float]) -> Judged:
        """Judge a claim of the catalogue by one number per seed for each of its metrics."""
        declared = catalogue.claim(id)
        if declared.notebook != self.notebook:
            raise ValueError(f"{id} belongs to {declared.notebook}, not to {self.notebook}")
        judged = verdict(declared, values)
        self._claims[id] = _claim_record(declared.to_dict(), judged)
        return judged

    def metric(self, name: str, values: float | Sequence[float], unit: str = "") -> None:
        """A number, or one number per seed."""
        self._metrics[name] = measured(values).to_dict() | {"unit": unit}

    def table(self, name: str, /, **columns: Sequence[float | str | None]) -> None:
        """The data behind a figure, by columns of one length."""
        lengths = {key: len(values) for key, values in columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns of {name!r} have different lengths: {lengths}")
        self._tables[name] = {key: [_plain(v) for v in values] for key, values in columns.items()}

    def control(self, name: str, controls: Any) -> None:
        """Controls of one experiment: a `Controls`, or the JSON-ready report of a comparison."""
        self._controls[name] = controls if isinstance(controls, Mapping) else controls.summary()

    def data(self, task: Any) -> None:
        """Note the checksum of a task's training data."""
        self._data[task.name] = task.checksum

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the seconds of a part; the same name again adds to it."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds(name, time.monotonic() - began)

    def seconds(self, name: str, seconds: float, cached: bool = False) -> None:
        """Add seconds to a part; `cached` marks work that an earlier run did and this one only loaded."""
        stage = self._stages.setdefault(name, {"seconds": 0.0, "cached": False})
        stage["seconds"] += float(seconds)
        stage["cached"] = stage["cached"] or cached

    def to_dict(self) -> dict[str, Any]:
        """The whole record, as it will be written; claims that were not judged say "not run"."""
        known = {name: h for name, h in self._modules.items() if name not in self._probes_own}
        origin = provenance.gather(self._root, self.notebook, known, self._data)
        before = provenance.used_modules()
        # Only now: the probes load parts of the library that this notebook may not have used, and a second
        # record of the same run must not count those.
        from reconlib.probe import run_probes

        probe = run_probes()
        self._probes_own |= provenance.used_modules() - before
        declared = catalogue.claims_of(self.notebook)
        claims = [self._claims.get(c.id) or _claim_record(c.to_dict(), Judged(NOT_RUN)) for c in declared]
        spent = time.monotonic() - self._began
        cached = sum(stage["seconds"] for stage in self._stages.values() if stage["cached"])
        return {
            "schema": SCHEMA_VERSION,
            "notebook": self.notebook,
            "profile": self.profile,
            "parameters": self._parameters,
            "claims": claims,
            "metrics": self._metrics,
            "tables": self._tables,
            "controls": self._controls,
            "seconds": round(spent + cached, 2),
            "wall_seconds": round(spent, 2),
            "stages": {k: v | {"seconds": round(v["seconds"], 2)} for k, v in self._stages.items()},
            "peak_memory_mb": round(_peak_memory_mb(), 1),
            "provenance": origin,
            "probe": probe,
        }

    def save(self) -> Path:
        """Validate and write the record; nothing is written if it is not valid."""
        record = self.to_dict()
        validate(record)
        with atomic_path(self.path) as temporary:
            text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
            # Long lists of numbers on one line: readable in a diff, and half the size.
            text = re.sub(
                r"\[\n\s*([-\d.eE+,\s]+?)\n\s*\]", lambda m: "[" + " ".join(m[1].split()) + "]", text
            )
            temporary.write_text(text + "\n", encoding="utf-8")
        return self.path

    def __enter__(self) -> Result:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.save()


def record(
    notebook: str, profile: str = KEPT, parameters: Mapping[str, Any] | None = None, root: Path | None = None
) -> Result:
    """Begin to record a notebook's results; also a context manager that saves when it ends without error.

    Goes to `book/results/<notebook>.json` for profile cpu, to `book/_runs/<profile>/` for others, or to
    `<profile>/` under the folder that the environment variable RECONLIB_RESULTS names.
    """
    if profile not in PROFILES:
        raise ValueError(f"unknown profile {profile!r}; choose one of {', '.join(PROFILES)}")
    redirected = os.environ.get("RECONLIB_RESULTS")
    try:
        root = provenance.project_root(root)
    except FileNotFoundError:
        if not redirected:
            raise
        root = Path.cwd()
    folder = root / "book" / "results" if profile == KEPT else root / "book" / "_runs" / profile
    folder = Path(redirected) / profile if redirected else folder
    return Result(notebook, profile, parameters or {}, folder / f"{notebook}.json", root)


def validate(record: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless a record follows the schema and its own rules, and names no machine."""
    problems = [
        f"{'/'.join(str(part) for part in error.absolute_path) or 'record'}: {error.message}"
        for error in jsonschema.Draft202012Validator(schema()).iter_errors(record)
    ]
    if problems:
        raise ValueError("the record does not follow results.schema.json:\n  " + "\n  ".join(problems[:10]))
    for claim in record["claims"]:
        values = {name: entry["values"] for name, entry in claim["measured"].items()}
        expected = verdict(claim_from_dict(claim), values).verdict
        if claim["verdict"] != expected:
            raise ValueError(f"{claim['id']}: verdict {claim['verdict']!r}, but its rules give {expected!r}")
    for text in _strings(record):
        if _MACHINE_PATH.search(text):
            raise ValueError(f"{text!r} looks like a path of this machine; results go public")


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of a results file."""
    return json.loads(Path(__file__).with_name("results.schema.json").read_text(encoding="utf-8"))


def _claim_record(declared: dict[str, Any], judged: Judged) -> dict[str, Any]:
    numbers = {name: value.to_dict() for name, value in judged.measured.items()}
    return declared | {
        "verdict": judged.verdict,
        "measured": numbers,
        "by_metric": dict(judged.by_metric),
        "seeds": max((len(value.values) for value in judged.measured.values()), default=0),
    }


def _plain(value: Any) -> float | str | None:
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    if number != number or abs(number) == float("inf"):
        raise ValueError(f"a table cannot hold {number}; use None where there is no value")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (str(key), *_strings(inner))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


def _peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
