"""Pages of an answer's files (``maxFiles``, ``pageToken``), for clients that ask for them.

1. Files of a version are in the order of a hash of their paths. In the log their order is another one after each checkpoint, so
   that files would be lost between two pages. Each page but the last has exactly as many files as were asked for.
2. A token has the version and the last file of the page before. A gateway remembers nothing of a query, so each of them answers
   for each page, and the right is judged for each. A token says nothing that its client could not ask, so it is not signed.
3. Files of changes are in the order of their commits, which never change: their token has a commit and a number of its files.
4. Predicates leave out files of a page, so that it may have none, and yet a next one.

Source: the protocol, "Read Data from a Table", ``maxFiles``, ``EndStreamAction``.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Annotated, Final, TypeVar

import msgspec
import pyarrow as pa

from gateway.problem import refused
from log_format.checkpoints.table_files import TableFiles
from log_format.errors import DECODE_ERRORS

TokenT = TypeVar("TokenT")
FILES_MAX: Final = 100_000
"""Most files of a page: the paths of so many are held while it is found."""
TOKEN_CHARACTERS_MAX: Final = 4_096
Key = tuple[int, str]
"""A file's place: the hash of its path, and the path."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Token(msgspec.Struct, frozen=True, array_like=True):
    """A page: files of the table at ``version`` whose key is greater than ``after``."""

    version: Count
    after: Key


class ChangesToken(msgspec.Struct, frozen=True, array_like=True):
    """A page of the changes from version ``first`` to ``end``: it begins in ``version``, behind ``skipped`` of its files."""

    first: Count
    end: Count
    version: Count
    skipped: Count


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Token).decode
_decode_changes: Final = msgspec.json.Decoder(ChangesToken).decode


def token_of(text: str) -> Token:
    """Return the page that a client's token names. Raise ``RequestRefused``."""
    return _read(text, _decode)


def _read(text: str, decode: Callable[[bytes], TokenT]) -> TokenT:
    try:
        return decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except (*DECODE_ERRORS, ValueError):  # base64 raises the latter
        raise refused(
            "The pageToken is none that was given.", [("/pageToken", "must be a token of an answer")]
        ) from None


def _text(token: Token | ChangesToken) -> str:
    return urlsafe_b64encode(_encode(token)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """One page of the changes from version ``first`` to ``end``, as in ``ChangesToken``. ``count``: most files; None: all."""

    first: int
    end: int
    version: int
    skipped: int
    count: int | None

    @classmethod
    def of(cls, first: int, end: int, max_files: int | None, text: str | None) -> ChangesPage:
        """Return the page that a client asks for. ``text``: its token; None: the first page, of changes up to ``end``.

        Raises ``RequestRefused`` for a token that was not given for changes since ``first``, or names versions beyond ``end``.
        """
        count = None if max_files is None and text is None else min(max_files or FILES_MAX, FILES_MAX)
        if text is None:
            return cls(first, end, first, 0, count)
        token = _read(text, _decode_changes)
        if not token.first == first <= token.version <= token.end <= end:
            raise refused(
                "The pageToken is for another request.",
                [("/pageToken", "must be a token of an answer to this request")],
            )
        return cls(first, token.end, token.version, token.skipped, count)

    def token(self, version: int, skipped: int) -> str:
        """Return the token of the page that begins in ``version`` behind so many of its files."""
        return _text(ChangesToken(self.first, self.end, version, skipped))


class FilesPage:
    """One page of a table's files. ``next_token``: names the one behind it; None: there is none."""

    def __init__(self, files: TableFiles, after: Key | None, count: int) -> None:
        """Read the log once. Raises ``CorruptData``, ``StoreUnavailable``."""
        self._after = after
        keys = (key for adds in files.adds() for key in map(_key, adds.field("path").to_pylist()))
        first = nsmallest(min(count, FILES_MAX) + 1, (key for key in keys if after is None or key > after))
        self._until = first[-2] if len(first) > min(count, FILES_MAX) else None
        self.next_token: str | None = None
        if self._until is not None:
            self.next_token = _text(Token(files.version, self._until))

    def of(self, adds: pa.StructArray) -> pa.StructArray:
        """Return those of some files that are in the page."""
        return adds.filter(pa.array([self._has(_key(path)) for path in adds.field("path").to_pylist()], pa.bool_()))

    def _has(self, key: Key) -> bool:
        return (self._after is None or key > self._after) and (self._until is None or key <= self._until)


def _key(path: str) -> Key:
    return zlib.crc32(path.encode()), path
