"""Decoding of many JSON records in one call: fast if they are valid, without an error message if not.

msgspec decodes the whole text against the shape of a record, and each column is converted to an Arrow array. The parser silently
drops one of two members of the same name, which the API forbids. So the string delimiters of the decoded records are counted and
compared with those in the text. A dropped member leaves at least the two of its name unaccounted for.

Records of one form are cut out of the text instead (``json_documents``), without the parser's objects.

In case of doubt the result is None. The caller then reads record by record (``json_record``), which also reports errors. So this
module refuses nothing, and handles only common forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from gateway.codec import json_documents
from gateway.codec.base64_text import decode_base64
from gateway.codec.incoming import PARTITION_MAX
from gateway.codec.json_text import structural_quotes
from gateway.codec.record_columns import RecordColumns, header_lists, with_expiry
from log_format.errors import DECODE_ERRORS
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from log_format.records.single import SingleRecord

UNCOUNTED_BYTES_MAX: Final = 2 * 1024 * 1024
"""Size up to which a text may have any density."""
OBJECTS_MAX: Final = 524_288
"""Most commas and brackets in a longer text: a denser one would become many times its size in Python objects."""

_MINUS_ZERO: Final = re.compile(rb"-0(?=[ \t\r\n,\]}])(?<=[ \t\r\n:,\[]-0)")
_STRING_OR_MINUS_ZERO: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")|-0(?=[ \t\r\n,\]}])', re.DOTALL)
_STAND_IN: Final = b"-0E-00000"
"""Replacement for -0: the parser would turn -0 into 0, but keeps this text."""
_encode: Final = msgspec.json.Encoder().encode


class _Header(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: str | UnsetType | None = UNSET
    value_base64: str | UnsetType = UNSET


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    value: Any = UNSET
    key: str | UnsetType | None = UNSET
    timestamp: Annotated[int, Meta(ge=TIMESTAMP_MS_MIN, le=TIMESTAMP_MS_MAX)] | UnsetType | None = UNSET
    partition: Annotated[int, Meta(ge=0, le=PARTITION_MAX)] | UnsetType | None = UNSET
    expires_at: Annotated[int, Meta(ge=TIMESTAMP_MS_MIN, le=TIMESTAMP_MS_MAX)] | UnsetType | None = UNSET
    headers: list[_Header] | dict[str, str] | UnsetType | None = UNSET
    offset: int | UnsetType | None = UNSET
    value_base64: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    deliver_at: Annotated[int, Meta(ge=TIMESTAMP_MS_MIN, le=TIMESTAMP_MS_MAX)] | UnsetType | None = UNSET
    deliver_after_ms: Annotated[int, Meta(ge=0, le=TIMESTAMP_MS_MAX)] | UnsetType | None = UNSET


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    records: list[_Record]


def _number(text: str) -> msgspec.Raw:
    return msgspec.Raw(b"-0" if text == _STAND_IN.decode() else text.encode())


class _Decoders:
    """Decoders of one form each. ``float_hook`` gets the text of a number that is not an integer."""

    def __init__(self, float_hook: Callable[[str], msgspec.Raw]) -> None:
        envelope = msgspec.json.Decoder(_Envelope, float_hook=float_hook)
        self.envelope: Callable[[bytes], list[_Record]] = lambda text: envelope.decode(text).records
        self.list = msgspec.json.Decoder(list[_Record], float_hook=float_hook).decode
        self.lines = msgspec.json.Decoder(_Record, float_hook=float_hook).decode_lines


# Raw, because the hook has to keep a number's text.
_DECODERS: Final = _Decoders(msgspec.Raw)
_DECODERS_OF_STAND_INS: Final = _Decoders(_number)


class _Undecided(Exception):
    """The text cannot be decided here."""


_UNDECIDED: Final = (*DECODE_ERRORS, OverflowError, _Undecided)


def decode_envelope(body: bytes) -> RecordColumns | SingleRecord | None:
    """Return the records of ``{"records": [...]}``, or None if they have to be read one by one."""
    return json_documents.decode_envelope(body) or _decode_envelope(body)


def _decode_envelope(body: bytes) -> RecordColumns | SingleRecord | None:
    try:
        records = _parsed(body, "envelope")
        single = _single(records[0], body) if len(records) == 1 else None
        return _Assembly(body, records, 2).columns() if single is None else single
    except _UNDECIDED:
        return None


def decode_list(text: bytes) -> RecordColumns | None:
    """Return the records of a JSON array, or None."""
    return json_documents.decode_list(text) or _decode(text, "list")


def decode_lines(text: bytes) -> RecordColumns | None:
    """Return the records of a text with exactly one object a line and no blank lines, or None.

    The caller checks that the parser's values are the lines: the parser accepts any white space between them.
    """
    return json_documents.decode_lines(text) or _decode(text, "lines")


def _decode(text: bytes, form: Literal["list", "lines"]) -> RecordColumns | None:
    try:
        return _Assembly(text, _parsed(text, form), 0).columns()
    except _UNDECIDED:
        return None


def _parsed(text: bytes, form: Literal["envelope", "list", "lines"]) -> list[_Record]:
    """Return the records in ``text``. Raise one of ``_UNDECIDED``."""
    if len(text) > UNCOUNTED_BYTES_MAX and text.count(b",") + text.count(b"{") + text.count(b"[") > OBJECTS_MAX:
        raise _Undecided
    parsed, decoders = text, _DECODERS
    if b"-0" in text and _MINUS_ZERO.search(text):
        if _STAND_IN in text or len(text) > UNCOUNTED_BYTES_MAX:
            raise _Undecided
        parsed, decoders = _STRING_OR_MINUS_ZERO.sub(_with_stand_in, text), _DECODERS_OF_STAND_INS
    records: list[_Record] = getattr(decoders, form)(parsed)
    return records


def _single(record: _Record, body: bytes) -> SingleRecord | None:
    """Return the body's only record, if it has no members other than value, key and timestamp; else None.

    Any other member, or a repeated one, leaves string delimiters unaccounted for.
    """
    value, key, timestamp = record.value, record.key, record.timestamp
    if not (value is None or isinstance(value, str)):
        return None
    quotes = (
        4 + 2 * (value is not None) + 2 * (key is not UNSET) + 2 * isinstance(key, str) + 2 * (timestamp is not UNSET)
    )
    if quotes != structural_quotes(body):
        return None
    return SingleRecord(
        timestamp if isinstance(timestamp, int) else None,
        key.encode() if isinstance(key, str) else None,
        None if value is None else value.encode(),
    )


def _with_stand_in(found: re.Match[bytes]) -> bytes:
    string: bytes | None = found.group(1)
    return _STAND_IN if string is None else string


class _Assembly:
    """Conversion of decoded records to columns, accounting for every string delimiter in their text.

    ``quotes``: number of delimiters outside the records.
    """

    __slots__ = ("_quotes", "_records", "_text")

    def __init__(self, text: bytes, records: list[_Record], quotes: int) -> None:
        self._text = text
        self._records = records
        self._quotes = quotes

    def columns(self) -> RecordColumns:
        """Return the columns. Raise ``_Undecided``."""
        records = self._records
        self._count_names(sum_of=[record.offset for record in records])
        columns = RecordColumns(
            values=self._values(),
            keys=self._keys(),
            headers=self._with_expiry(self._headers([record.headers for record in records])),
            timestamps=self._integers([record.timestamp for record in records]),
            partitions=self._integers([record.partition for record in records]),
            deliver_at=self._integers([record.deliver_at for record in records]),
            deliver_after=self._integers([record.deliver_after_ms for record in records]),
        )
        if self._quotes != structural_quotes(self._text):
            raise _Undecided
        return columns

    def _count_names(self, sum_of: Sequence[Any]) -> int:
        present = len(sum_of) - sum_of.count(UNSET)
        self._quotes += 2 * present
        return present

    def _integers(self, column: list[Any]) -> pa.Array | None:
        present = self._count_names(column)
        if not present:
            return None
        if present < len(column):
            column = [None if number is UNSET else number for number in column]
        return pa.array(column, pa.int64())

    def _keys(self) -> pa.Array | None:
        keys = [record.key for record in self._records]
        encoded = [record.key_base64 for record in self._records]
        present = self._count_names(keys)
        if self._count_names(encoded):
            keys = self._merged(keys, encoded, absent=None)
        elif not present:
            return None
        elif present < len(keys):
            keys = [None if key is UNSET else key for key in keys]
        array = pa.array(keys, pa.binary())
        self._quotes += 2 * (len(array) - array.null_count)
        return array

    def _values(self) -> pa.Array:
        values: list[Any] = [record.value for record in self._records]
        encoded = [record.value_base64 for record in self._records]
        present = self._count_names(values)
        if self._count_names(encoded):
            values = self._merged(values, encoded, absent=UNSET)
        elif present < len(values):
            raise _Undecided
        try:
            array = pa.array(values, pa.binary())
        except (pa.ArrowInvalid, TypeError):
            return self._documents(values)
        self._quotes += 2 * (len(array) - array.null_count)
        return array

    def _merged(self, plain: Sequence[Any], encoded: Sequence[str | UnsetType], absent: Any) -> list[Any]:
        """Return each record's plain or decoded form. ``absent`` stands for neither; if it is ``UNSET``, one of both is
        required."""
        merged: list[Any] = []
        for given, text in zip(plain, encoded, strict=True):
            if text is UNSET:
                if given is UNSET and absent is UNSET:
                    raise _Undecided
                merged.append(absent if given is UNSET else given)
                continue
            data = decode_base64(text) if given is UNSET else None
            if data is None:
                raise _Undecided
            merged.append(data)
        return merged

    def _documents(self, values: list[Any]) -> pa.Array:
        """Return values of which some are neither text nor null: these are encoded as JSON again."""
        stored: list[bytes | str | None] = []
        documents: list[bytes] = []
        texts = 0
        for value in values:
            if value is None or isinstance(value, (str, bytes)):
                stored.append(value)
                texts += value is not None
            else:
                document = _encode(value)
                stored.append(document)
                documents.append(document)
        self._quotes += 2 * texts + structural_quotes(b"\n".join(documents))
        return pa.array(stored, pa.binary())

    def _with_expiry(self, headers: pa.Array | None) -> pa.Array | None:
        times = self._integers([record.expires_at for record in self._records])
        return headers if times is None else with_expiry(headers, times)

    def _headers(self, column: list[Any]) -> pa.Array | None:
        if not self._count_names(column):
            return None
        counts: list[int] = []
        names: list[str] = []
        values: list[str | bytes | None] = []
        texts = 0
        for headers in column:
            if not headers:
                counts.append(0)
                continue
            counts.append(len(headers))
            if isinstance(headers, dict):
                names += headers.keys()
                values += headers.values()
                texts += 2 * len(headers)
                continue
            for header in headers:
                names.append(header.key)
                value = _header_value(header)
                values.append(value)
                texts += 3 if value is None else 4
        self._quotes += 2 * texts
        return header_lists(counts, names, pa.array(values, pa.binary()))


def _header_value(header: _Header) -> str | bytes | None:
    if header.value_base64 is UNSET:
        if header.value is UNSET:
            raise _Undecided
        return header.value
    data = decode_base64(header.value_base64) if header.value is UNSET else None
    if data is None:
        raise _Undecided
    return data
