"""What can go wrong with data, as types: missing, altered, or not what the reader accepts."""

from __future__ import annotations

from pathlib import Path


class DataError(Exception):
    """Base of every error about data."""


class DataNotFound(DataError):
    """No source could provide the data set; the message lists every way to get it."""


class SourceFailed(DataError):
    """One source (a download, npm) could not provide the data; the next one may."""


class SourceRejected(SourceFailed):
    """One source answered with something else than the published data."""


class UnsafeFile(DataError):
    """A file holds something that plain data does not need, such as code to run or a link to follow."""


class Undecodable(DataError):
    """A file ends too early or is no such file at all: there is no content to take a checksum of."""


class ChecksumMismatch(DataError):
    """A file's content is not the published one: truncated or altered. It was not used, nor deleted."""

    def __init__(
        self, origin: str | Path, expected: str, found: str, kind: str = "SHA-256 of the decoded content"
    ):
        self.origin, self.expected, self.found = str(origin), expected, found
        super().__init__(
            f"{origin} is truncated or altered, and was not used.\n"
            f"  {kind}, expected: {expected}\n"
            f"  {kind}, found:    {found}"
        )
