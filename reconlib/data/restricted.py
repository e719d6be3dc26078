"""A reader for the CIFAR pickles that can only produce dicts, lists, numbers, bytes and uint8 arrays.

Unpickling calls whatever a file names. Here the file's instructions are compared with the few that such
files need before any is followed, and every name in it resolves to one of three inert stand-ins or is
refused: not even numpy's own constructors are reachable.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import warnings
from typing import Any

import numpy as np

from .errors import Undecodable, UnsafeFile

# What Python 2 wrote into the published files, and reading back from the memo.
_INSTRUCTIONS = frozenset(
    """PROTO STOP MARK NONE NEWFALSE NEWTRUE BININT BININT1 BININT2 BINSTRING SHORT_BINSTRING
    EMPTY_DICT SETITEM SETITEMS EMPTY_LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
    BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL REDUCE BUILD""".split()
)
_DAMAGE = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, DeprecationWarning,
)  # fmt: skip


class _Dtype:
    """Stands in for numpy.dtype: unsigned bytes only."""

    def __init__(self, code: object, *_: object):
        if code != b"u1":
            raise UnsafeFile(f"an array of type {code!r}; only unsigned bytes (u1) are expected")

    def __setstate__(self, state: object) -> None:
        """The remaining state (byte order, alignment) says nothing about single bytes."""


class _Array:
    """Stands in for numpy.ndarray: takes numpy's pickled state and checks it against the bytes given."""

    array: np.ndarray | None = None

    def __setstate__(self, state: object) -> None:
        match state:
            case (int(), tuple(shape), _Dtype(), bool(fortran), bytes(content)):
                pass
            case _:
                raise UnsafeFile("an array whose state is not (version, shape, dtype, order, bytes)")
        if len(shape) != 2 or not all(isinstance(n, int) and n > 0 for n in shape):
            raise UnsafeFile(f"an array of shape {shape!r}, not of rows and columns")
        if shape[0] * shape[1] != len(content):
            raise UnsafeFile(f"an array of shape {shape} with {len(content)} bytes")
        self.array = np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if fortran else "C")


class _Reconstruct:
    """Stands in for numpy's `_reconstruct`; an instance without attributes, so that a file cannot set any."""

    __slots__ = ()

    def __call__(self, kind: object, *_: object) -> _Array:
        if kind is not _Array:
            raise UnsafeFile("an array of an unknown kind")
        return _Array()

    def __setstate__(self, state: object) -> None:
        raise UnsafeFile("an attempt to change the reader")


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise UnsafeFile(f"the name {module}.{name}, which plain data does not need") from None


def loads(raw: bytes) -> dict[bytes, Any]:
    """Read one CIFAR pickle: a dict of bytes keys to lists, bytes, ints and uint8 arrays `(n, d)`."""
    try:
        with warnings.catch_warnings():
            # Python only warns of a malformed text in a file; here it is damage like any other.
            warnings.simplefilter("error", DeprecationWarning)
            _check_instructions(raw)
        content = _Reader(io.BytesIO(raw), encoding="bytes").load()
    except _DAMAGE as error:
        raise Undecodable(f"not a readable pickle ({type(error).__name__}: {error})") from None
    if not isinstance(content, dict) or not all(isinstance(key, bytes) for key in content):
        raise UnsafeFile(f"a {type(content).__name__}, not a dict of named fields")
    return {key: value.array if isinstance(value, _Array) else value for key, value in content.items()}


def _check_instructions(raw: bytes) -> None:
    for instruction, argument, _ in pickletools.genops(raw):
        if instruction.name not in _INSTRUCTIONS:
            raise UnsafeFile(f"the instruction {instruction.name}, which plain data does not need")
        if instruction.name == "LONG_BINPUT" and int(argument or 0) > len(raw):
            # The reader would allocate a memo of that length: up to 64 GB for one instruction.
            raise UnsafeFile(f"a memo entry {argument}, beyond the file's own length")
