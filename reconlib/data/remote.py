"""torchvision's download: its list of addresses, fetched and checked by our own reader."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from .._torchvision import import_torchvision
from ..files import atomic_path, md5_file
from .archives import read_members
from .catalogue import DatasetInfo, Layout, Part
from .download import download
from .errors import ChecksumMismatch, SourceFailed, Undecodable
from .verified import decode_verified

_MEMBER_LIMIT = 300_000_000  # bytes; the largest file asked for has 155 million


def fetch_torchvision(info: DatasetInfo, root: Path, mirror: str | None = None) -> None:
    """Fetch a data set below `root` from where torchvision does, or from the folder at address `mirror`.

    Only the decoded content is checked, so a mirror may have compressed the same files anew.
    """
    try:
        source = getattr(import_torchvision("datasets"), info.torchvision_class)
    except (ImportError, RuntimeError) as error:
        raise SourceFailed(f"torchvision cannot be imported ({error})") from None
    if info.archive:
        _fetch_archive(info, root, source, mirror)
    else:
        _fetch_files(info, root, source, mirror)


def _fetch_files(info: DatasetInfo, root: Path, source: Any, mirror: str | None) -> None:
    layout = next(layout for layout in info.layouts if layout.files[0].endswith(".gz"))
    for file, part in zip(layout.files, info.parts, strict=True):
        target = root / layout.folder / file
        if not target.exists():  # a file that is there is verified when it is read, never replaced
            urls = [_join(base, file) for base in ([mirror] if mirror else source.mirrors)]
            download(urls, target, partial(_check_file, part, layout))


def _fetch_archive(info: DatasetInfo, root: Path, source: Any, mirror: str | None) -> None:
    archive = root / info.archive
    members: dict[str, bytes] = {}
    if archive.exists():  # put there by hand, or by torchvision
        members = _verified_members(info, source.tgz_md5, archive)
    else:
        url = _join(mirror, info.archive) if mirror else source.url
        download([url], archive, lambda path: members.update(_verified_members(info, source.tgz_md5, path)))
    for member, content in members.items():
        if not (root / member).exists():
            with atomic_path(root / member) as temporary:
                temporary.write_bytes(content)


def _verified_members(info: DatasetInfo, md5: str, archive: Path) -> dict[str, bytes]:
    """The data set's files in the archive, by their path below the data root, each of them verified."""
    layout = info.layouts[0]
    members = [f"{layout.folder}/{file}" for file in layout.files]
    try:
        contents = read_members(archive, members, _MEMBER_LIMIT)
    except Undecodable as error:
        found = f"{md5_file(archive)} ({error})"
        raise ChecksumMismatch(archive, md5, found, "MD5 of the file") from None
    for member, part in zip(members, info.parts, strict=True):
        decode_verified(contents[member], part, layout, f"{member} in {archive}")
    return contents


def _check_file(part: Part, layout: Layout, path: Path) -> None:
    decode_verified(path.read_bytes(), part, layout, path)


def _join(base: str, file: str) -> str:
    return f"{base.rstrip('/')}/{file}"
