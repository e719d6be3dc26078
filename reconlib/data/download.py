"""Download over HTTP to a temporary name, check, then rename: the final name never holds half a file."""

from __future__ import annotations

import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from .errors import ChecksumMismatch, SourceFailed, SourceRejected, Undecodable, UnsafeFile

_BLOCK = 1 << 18
_TIMEOUT = 30.0  # seconds without a single byte


def download(urls: Sequence[str], target: Path, check: Callable[[Path], None]) -> None:
    """Fetch `target` from the first of `urls` that delivers it whole and to the satisfaction of `check`.

    The caller holds the data set's lock, so one temporary name is enough and a leftover of a killed
    process is overwritten. A complete file that `check` refuses is kept as `<name>.rejected`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".part")
    reasons, failure = [], SourceFailed
    for url in urls:
        try:
            _receive(url, temporary)
            check(temporary)
            os.replace(temporary, target)
            return
        except (OSError, http.client.HTTPException) as error:
            reasons.append(f"{url}: {_explain(error)}")
        except (ChecksumMismatch, Undecodable, UnsafeFile) as error:
            rejected = target.with_name(target.name + ".rejected")
            os.replace(temporary, rejected)
            reasons.append(f"{url}: {error}\n  kept for inspection as {rejected}")
            failure = SourceRejected
        finally:
            temporary.unlink(missing_ok=True)
    raise failure("\n".join(reasons))


def _receive(url: str, target: Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "reconlib"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response, open(target, "wb") as file:
        announced = response.headers.get("Content-Length")
        total = int(announced) if announced else None
        bar = tqdm(
            total=total, desc=target.stem, unit="B", unit_scale=True, unit_divisor=1000, file=sys.stderr
        )
        received = 0
        with bar:
            while block := response.read(_BLOCK):
                file.write(block)
                received += len(block)
                bar.update(len(block))
        file.flush()
        os.fsync(file.fileno())
    if total is not None and received != total:
        raise ConnectionError(f"the connection ended after {received:,} of {total:,} bytes")


def _explain(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection ({error.reason})"
    return str(error) or type(error).__name__
