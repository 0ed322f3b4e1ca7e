"""Decoding of one JSON record exactly as the API says, with every reason why it can't be stored.

It is slower than ``json_batch``, and the reference: both must accept the same records and return the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa

from gateway.codec.base64_text import decode_base64
from gateway.codec.incoming import PARTITION_MAX
from gateway.codec.json_structure import elements_exceed
from gateway.codec.json_text import MEMBER_NAMES_MAX, TooManyMembers, compact, repeated_member
from gateway.codec.record_columns import TOO_MANY_HEADERS, RecordColumns, header_lists
from log_format.limits import HEADERS_PER_RECORD_MAX
from log_format.records.expiry import EXPIRES_AT
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

Note = Callable[[str, str], None]
"""``note(member, what)`` reports an error: ``member`` is a pointer without its first slash, empty for the record itself."""

_MEMBERS: Final = frozenset(
    (
        "partition",
        "offset",
        "timestamp",
        "key",
        "key_base64",
        "value",
        "value_base64",
        "headers",
        "deliver_at",
        "deliver_after_ms",
        EXPIRES_AT,
    )
)
_HEADER_MEMBERS: Final = frozenset(("key", "value", "value_base64"))
_NO_MEMBER: Final = (
    "is not a member of a record, which has value (or value_base64), key, headers, partition, timestamp and others"
)
_INTEGER: Final = re.compile(rb"-?[0-9]+")
_INTEGER_DIGITS_MAX: Final = 20
_SURROGATE: Final = "has half of a surrogate pair, which UTF-8 can't encode"
_BASE64: Final = "must be base64: standard alphabet, padded"

_read_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_text: Final = msgspec.json.Decoder(str).decode


@dataclass(slots=True)
class ReadRecords:
    """Records that were read one by one, column by column."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    deliver_at: list[int | None] = field(default_factory=list)
    deliver_after: list[int | None] = field(default_factory=list)
    header_counts: list[int] = field(default_factory=list)
    header_names: list[str] = field(default_factory=list)
    header_values: list[bytes | None] = field(default_factory=list)

    def columns(self) -> RecordColumns:
        """Return the columns as Arrow."""
        return RecordColumns(
            values=pa.array(self.values, pa.binary()),
            keys=pa.array(self.keys, pa.binary()),
            headers=header_lists(self.header_counts, self.header_names, pa.array(self.header_values, pa.binary())),
            timestamps=pa.array(self.timestamps, pa.int64()),
            partitions=pa.array(self.partitions, pa.int64()),
            deliver_at=_unless_none(self.deliver_at),
            deliver_after=_unless_none(self.deliver_after),
        )

    def read(self, text: bytes, note: Note, surrogate: bytes | None = None) -> None:
        """Append the record in a valid JSON ``text``, or note its errors.

        ``surrogate`` is the escape that stands for lone surrogates in the text. Raises ``msgspec.DecodeError`` if the text is not
        valid JSON after all.
        """
        if text[:1] != b"{":
            note("", "must be an object")
            return
        try:
            repeated = repeated_member(text)
        except TooManyMembers:
            note("", f"has an object with more than {MEMBER_NAMES_MAX} members")
            return
        if repeated is not None:
            name, depth = repeated
            note(name if depth == 1 and name in _MEMBERS else "", f"has the member {_shown(name)} more than once")
            return
        _Reader(text, note, surrogate).read_into(self)


class _Reader:
    """Reader of one record. Each check notes its errors, so that one pass finds all of them."""

    def __init__(self, text: bytes, note: Note, surrogate: bytes | None) -> None:
        self._members: Mapping[str, bytes] = {name: bytes(raw) for name, raw in _read_object(text).items()}
        self._note = note
        self._surrogate = surrogate if surrogate is not None and surrogate in text.lower() else None
        self._wrong = False

    def read_into(self, records: ReadRecords) -> None:
        members = self._members
        for name in members:
            if name not in _MEMBERS:
                is_plain = _plain(name)
                self._refuse(name if is_plain else "", f"{'' if is_plain else f'{_shown(name)} '}{_NO_MEMBER}")
        if "value" not in members and "value_base64" not in members:
            self._refuse("value", "is missing: exactly one of value and value_base64 must be there")
        self._check_surrogates("offset", members.get("offset", b""))
        partition = self._integer("partition", 0, PARTITION_MAX)
        timestamp = self._integer("timestamp", TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)
        deliver_at = self._integer("deliver_at", TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)
        deliver_after = self._integer("deliver_after_ms", 0, TIMESTAMP_MS_MAX)
        if deliver_at is not None and deliver_after is not None:
            self._refuse("deliver_at", "and deliver_after_ms exclude each other")
        key = self._bytes(members, "key", "", self._text)
        value = self._bytes(members, "value", "", self._document)
        names, values = self._headers()
        expires_at = self._integer(EXPIRES_AT, TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)
        if expires_at is not None:
            names.append(EXPIRES_AT)
            values.append(b"%d" % expires_at)
        if self._wrong:
            return
        records.partitions.append(partition)
        records.timestamps.append(timestamp)
        records.deliver_at.append(deliver_at)
        records.deliver_after.append(deliver_after)
        records.keys.append(key)
        records.values.append(value)
        records.header_counts.append(len(names))
        records.header_names += names
        records.header_values += values

    def _refuse(self, where: str, what: str) -> None:
        self._wrong = True
        self._note(where, what)

    def _check_surrogates(self, where: str, text: bytes) -> bool:
        if self._surrogate is not None and self._surrogate in text.lower():
            self._refuse(where, _SURROGATE)
            return False
        return True

    def _integer(self, name: str, minimum: int, maximum: int) -> int | None:
        text = self._members.get(name, b"null")
        if text == b"null":
            return None
        if _INTEGER.fullmatch(text) and len(text) <= _INTEGER_DIGITS_MAX and minimum <= int(text) <= maximum:
            return int(text)
        self._refuse(name, f"must be null or an integer from {minimum} to {maximum}")
        return None

    def _bytes(
        self, members: Mapping[str, bytes], name: str, where: str, read: Callable[[str, bytes], bytes | None]
    ) -> bytes | None:
        """Return the bytes of ``name`` or ``name_base64``; None for null, and if it is absent or wrong."""
        plain, encoded = members.get(name), members.get(f"{name}_base64")
        if plain is not None and encoded is not None:
            self._refuse(where + name, f"and {name}_base64 exclude each other")
            return None
        if encoded is not None:
            data = decode_base64(_read_text(encoded)) if encoded[:1] == b'"' else None
            if data is None:
                self._refuse(f"{where}{name}_base64", _BASE64)
            return data
        return None if plain is None or plain == b"null" else read(where + name, plain)

    def _text(self, where: str, text: bytes) -> bytes | None:
        if text[:1] != b'"':
            self._refuse(where, "must be a string or null")
            return None
        return _read_text(text).encode() if self._check_surrogates(where, text) else None

    def _document(self, where: str, text: bytes) -> bytes | None:
        if text[:1] == b'"':
            return self._text(where, text)
        return compact(text) if self._check_surrogates(where, text) else None

    def _headers(self) -> tuple[list[str], list[bytes | None]]:
        text = self._members.get("headers", b"null")
        names: list[str] = []
        values: list[bytes | None] = []
        if text[:1] == b"{":
            for name, raw in _read_object(text).items():
                where = f"headers/{_escaped(name)}"
                value = bytes(raw)
                if value[:1] != b'"':
                    self._refuse(where, "must be a string; to send null or base64 give headers as a list")
                else:
                    names.append(name)
                    values.append(self._text(where, value))
            if self._surrogate is not None:
                self._check_surrogates("headers", text)
        elif text[:1] == b"[" and elements_exceed(text, HEADERS_PER_RECORD_MAX):
            self._refuse("headers", TOO_MANY_HEADERS)
        elif text[:1] == b"[":
            for index, raw in enumerate(_read_list(text)):
                self._header(f"headers/{index}", bytes(raw), names, values)
        elif text != b"null":
            self._refuse("headers", "must be a list of objects, an object of strings or null")
        return names, values

    def _header(self, where: str, text: bytes, names: list[str], values: list[bytes | None]) -> None:
        if text[:1] != b"{":
            self._refuse(where, "must be an object")
            return
        members: dict[str, Any] = {name: bytes(raw) for name, raw in _read_object(text).items()}
        for name in members:
            if name not in _HEADER_MEMBERS:
                self._refuse(
                    where, f"{_shown(name)} is not a member of a header, which has {', '.join(sorted(_HEADER_MEMBERS))}"
                )
        if "value" not in members and "value_base64" not in members:
            self._refuse(f"{where}/value", "is missing: exactly one of value and value_base64 must be there")
        key = members.get("key", b"")
        if key[:1] != b'"':
            self._refuse(f"{where}/key", "must be a string")
        elif self._check_surrogates(f"{where}/key", key):
            names.append(_read_text(key))
        values.append(self._bytes({n: v for n, v in members.items() if n != "key"}, "value", f"{where}/", self._text))


def _unless_none(column: list[int | None]) -> pa.Array | None:
    return None if column.count(None) == len(column) else pa.array(column, pa.int64())


def _escaped(name: str) -> str:
    """Return a member's name as a part of a JSON pointer, shortened."""
    return name[:100].replace("~", "~0").replace("/", "~1")


def _plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and len(name) <= 100


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else name[:100] + "…")
