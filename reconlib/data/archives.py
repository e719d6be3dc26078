"""Archives opened safely: only the files asked for, only regular ones, only to the place we choose."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from .errors import Undecodable, UnsafeFile


def read_members(archive: Path, names: Sequence[str], limit: int) -> dict[str, bytes]:
    """The content of the named members of a gzipped tar file; whatever else it holds is never touched.

    A member's name is only compared, never used as a path, and none may be a link or larger than `limit`
    bytes (`UnsafeFile`). A damaged archive, or one that lacks a member, is `Undecodable`.
    """
    wanted, contents = set(names), {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if member.name not in wanted:
                    continue
                if not member.isreg():
                    raise UnsafeFile(
                        f"{archive} was refused: {member.name} is a link or a device, not a file."
                    )
                if member.name in contents or member.size > limit:
                    raise UnsafeFile(f"{archive} was refused: {member.name} comes twice or is far too large.")
                file = tar.extractfile(member)
                assert file is not None  # a regular member always has content
                contents[member.name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Undecodable(f"{archive} is truncated or not an archive ({error})") from None
    missing = sorted(wanted - set(contents))
    if missing:
        raise Undecodable(f"{archive} does not hold {', '.join(missing)}")
    return contents
