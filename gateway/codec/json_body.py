"""``application/json``: ``{"records": [record, ...]}``.

``json_alike`` decodes strings of the same form. Otherwise ``json_batch`` tries the whole body, then groups of records, so an
unusual record among thousands costs little, and a dense body never becomes many times its size in Python objects. The records of
a group that fails are read one by one.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from gateway.codec import json_alike, json_batch
from gateway.codec.incoming import POINTERS, IncomingRecords, RecordLocations
from gateway.codec.json_record import ReadRecords
from gateway.codec.json_structure import commas, elements
from gateway.codec.json_text import error_position, error_reason, line_and_column, without_lone_surrogates
from gateway.codec.record_columns import RecordColumns, incoming
from gateway.codec.refusal import BadRecords, malformed
from log_format.errors import RequestRefused
from log_format.records.single import SingleRecord

GROUP_RECORDS: Final = 1024
GROUP_BYTES: Final = 256 * 1024
"""Bounds of a group: it ends at the first one reached."""
MEMBERS_MAX: Final = 16
"""Most members of an envelope: more than any valid one has."""

_read_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_json(body: bytes) -> IncomingRecords:
    """Decode the records of a JSON body; errors name records by pointers such as ``/records/3``.

    Raises ``RequestRefused``: 400 ``INVALID_REQUEST`` (malformed JSON, not UTF-8, unknown or repeated member of the envelope,
    nested too deeply), 400 ``INVALID_RECORD``.
    """
    places = POINTERS
    decoded = json_alike.decode_envelope(body) or json_batch.decode_envelope(body)
    if isinstance(decoded, SingleRecord):
        return IncomingRecords(decoded)
    if decoded is not None:
        return incoming([decoded], places)
    try:
        return incoming(_decode_in_groups(body, places), places)
    except RecursionError:
        raise malformed("The body nests too deeply.") from None


def check_utf8(body: bytes) -> None:
    """Raise ``RequestRefused`` if the body is not UTF-8."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise malformed_at(body, error.start, "the body is not UTF-8") from None


def malformed_at(body: bytes, position: int, reason: str) -> RequestRefused:
    """Return the refusal of a body that can't be parsed from byte ``position`` on."""
    line, column = line_and_column(body, position)
    return malformed(
        f"The body is malformed at line {line}, column {column}: {reason}.",
        f"line {line}",
        f"column {column}: {reason}",
    )


def _decode_in_groups(body: bytes, places: RecordLocations) -> list[RecordColumns]:
    check_utf8(body)
    text, surrogate = without_lone_surrogates(body)
    bad = BadRecords()
    pieces: list[RecordColumns] = []
    start = 0
    for count, group in elements(_records(text), GROUP_RECORDS, GROUP_BYTES):
        is_suspect = surrogate is not None and surrogate in group.lower()
        piece = None if is_suspect else json_batch.decode_list(b"[%b]" % group)
        pieces.append(piece if piece is not None else _one_by_one(group, start, places, bad, surrogate))
        start += count
        if bad.full:
            break
    bad.refuse()
    return pieces


def _one_by_one(
    group: bytes, start: int, places: RecordLocations, bad: BadRecords, surrogate: bytes | None
) -> RecordColumns:
    read = ReadRecords()
    for index, text in enumerate(_read_list(b"[%b]" % group), start):
        read.read(bytes(text), partial(places.note, bad, index), surrogate)
        if bad.full:
            break
    return read.columns()


def _records(text: bytes) -> bytes:
    """Return the text of the list of records. Raise ``RequestRefused`` if the envelope is wrong."""
    members = object_members(text)
    for name in members:
        if name != "records":
            shown = name[:100]
            said = f"The body has an unknown member {shown!r}: it takes records only, a list with an object for each record."
            raise malformed(said, f"/{shown}", "is not a member of the body")
    if "records" not in members:
        raise malformed('The body must be an object with the member "records".', "/records", "is missing")
    if members["records"][:1] != b"[":
        raise malformed("The member records must be a list.", "/records", "must be a list")
    return members["records"]


def object_members(text: bytes, where: str = "") -> dict[str, bytes]:
    """Return the texts of the members of the object in ``text``; ``where`` is the object's JSON pointer in the body.

    Raises ``RequestRefused`` (400 ``INVALID_REQUEST``) unless it is a valid JSON object with few members, each given once.
    """
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(text)
    except msgspec.DecodeError as error:
        raise malformed_at(text, error_position(text, error), error_reason(error)) from None
    except RecursionError:
        raise malformed("The body nests too deeply.", where) from None
    what = "body" if not where else f"object at {where}"
    if text.lstrip(b" \t\r\n")[:1] != b"{":
        raise malformed(f"The {what} must be an object.", where)
    count = 1
    for found in commas(text):
        count += len(found)
        if count > MEMBERS_MAX:
            raise malformed(f"The {what} has more than {MEMBERS_MAX} members.", where)
    members = {name: bytes(raw) for name, raw in _read_object(text).items()}
    if members and len(members) < count:
        raise malformed(f"The {what} has a member more than once.", where)
    return members
