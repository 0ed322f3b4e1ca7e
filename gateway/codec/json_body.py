"""``application/json``: ``{"records": [record, ...]}``.

The whole body is tried at once (``json_batch``); failing that, groups of records, so that one odd record among thousands costs
little and a dense body never becomes many times its size in Python objects; failing that, the records of a group one by one.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from gateway.codec import json_batch
from gateway.codec.incoming import IncomingRecords, PlaceKind, Places
from gateway.codec.json_record import ReadRecords
from gateway.codec.json_text import (
    error_position,
    error_reason,
    line_and_column,
    structural_quotes,
    without_lone_surrogates,
)
from gateway.codec.record_columns import RecordColumns, incoming
from gateway.codec.refusal import BadRecords, malformed
from log_format.errors import RequestRefused

GROUP_RECORDS: Final = 1024
GROUP_BYTES: Final = 256 * 1024
"""A group ends at whichever of the two comes first."""

_read_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_json(body: bytes) -> IncomingRecords:
    """The records of a JSON body; records are named by pointers such as ``/records/3``.

    Raises ``RequestRefused``: 400 ``INVALID_REQUEST`` (malformed JSON, not UTF-8, unknown or repeated member of the envelope,
    nested too deeply), 400 ``INVALID_RECORD``.
    """
    columns = json_batch.decode_envelope(body)
    places = Places(PlaceKind.POINTER)
    if columns is not None:
        return incoming([columns], places)
    try:
        return incoming(_decode_in_groups(body, places), places)
    except RecursionError:
        raise malformed("The body nests too deeply.") from None


def check_utf8(body: bytes) -> None:
    """Raise ``RequestRefused`` when the body is not UTF-8."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise malformed_at(body, error.start, "the body is not UTF-8") from None


def malformed_at(body: bytes, position: int, reason: str) -> RequestRefused:
    """The refusal of a body that can't be parsed from the byte ``position`` on."""
    line, column = line_and_column(body, position)
    return malformed(
        f"The body is malformed at line {line}, column {column}: {reason}.",
        f"line {line}",
        f"column {column}: {reason}",
    )


def _decode_in_groups(body: bytes, places: Places) -> list[RecordColumns]:
    check_utf8(body)
    text, surrogate = without_lone_surrogates(body)
    records = _records(text)
    bad = BadRecords()
    pieces: list[RecordColumns] = []
    start = 0
    while start < len(records) and not bad.full:
        group: list[bytes] = []
        size = 0
        for raw in records[start : start + GROUP_RECORDS]:
            if size > GROUP_BYTES:
                break
            group.append(bytes(raw))
            size += len(group[-1])
        piece = None if surrogate is not None else json_batch.decode_list(b"[%b]" % b",".join(group))
        pieces.append(piece if piece is not None else _one_by_one(group, start, places, bad, surrogate))
        start += len(group)
    bad.refuse()
    return pieces


def _one_by_one(
    group: list[bytes], start: int, places: Places, bad: BadRecords, surrogate: bytes | None
) -> RecordColumns:
    read = ReadRecords()
    for index, text in enumerate(group, start):
        read.read(text, partial(places.note, bad, index), surrogate)
        if bad.full:
            break
    return read.columns()


def _records(text: bytes) -> list[msgspec.Raw]:
    """The records' texts. Raises ``RequestRefused`` when the envelope is wrong."""
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(text)
    except msgspec.DecodeError as error:
        raise malformed_at(text, error_position(text, error), error_reason(error)) from None
    if text.lstrip(b" \t\r\n")[:1] != b"{":
        raise malformed('The body must be an object with the member "records".')
    members = _read_object(text)
    if 2 * len(members) + sum(structural_quotes(bytes(raw)) for raw in members.values()) != structural_quotes(text):
        raise malformed("The body has a member more than once.")
    for name in members:
        if name != "records":
            shown = name[:100]
            raise malformed(f"The body has an unknown member {shown!r}.", f"/{shown}", "is not a member of the body")
    if "records" not in members:
        raise malformed('The body lacks the member "records".', "/records", "is missing")
    records = bytes(members["records"])
    if records[:1] != b"[":
        raise malformed("The member records must be a list.", "/records", "must be a list")
    return _read_list(records)
