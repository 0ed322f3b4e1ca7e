"""The check of one HTTP request's records by their topic's schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.codec.incoming import GivenColumns, IncomingRecords
from gateway.codec.refusal import BadRecords, too_large
from log_format.errors import ErrorCode, RequestRefused
from log_format.records.canonical_json import DocumentsTooLarge, bytes_at_most, largest_at_most
from log_format.records.size import largest_record_bytes
from log_format.records.typed_columns import CELLS_MAX, DATA
from log_format.schemas.columns.codec import Misfit, RecordReaders
from log_format.schemas.columns.cursor import Fault
from log_format.schemas.columns.given_columns import UnfitType
from log_format.schemas.columns.subject_readers import documents_of
from log_format.topic.config import TopicConfig

_LEFT_OUT_RATIO: Final = 8
"""Ratio of documents that are not made, by an upper bound, to the largest request: numbers take several times their bytes."""


class KnownReaders(NamedTuple):
    """Readers of a topic's schemas. ``is_newest``: no gateway knows a newer schema."""

    readers: RecordReaders
    is_newest: bool = False


class MisfitRecords(Exception):
    """Records that are not of their topic's schemas, as far as this gateway knows them.

    ``refusal``: the error to answer with. ``is_marked``: by the topic's settings they are stored, with the reason.
    """

    def __init__(self, misfits: Sequence[Misfit], refusal: RequestRefused, *, is_marked: bool) -> None:
        super().__init__(refusal.detail)
        self.misfits = misfits
        self.refusal = refusal
        self.is_marked = is_marked


class TypedRecords(NamedTuple):
    """Records that were judged.

    Args:
        incoming: the records. Values that came as columns are documents.
        typed: their typed columns; None: the topic has no schemas.
        left_out: which values the topic's table leaves out, though ``incoming`` may have them; None: none.
    """

    incoming: IncomingRecords
    typed: pa.Table | None = None
    left_out: npt.NDArray[np.bool_] | None = None


def typed_records(
    incoming: IncomingRecords, known: KnownReaders | None, config: TopicConfig, *, is_kept: bool = True
) -> TypedRecords:
    """Return the records with their typed columns.

    Args:
        incoming: the records of a request.
        known: readers of the topic's schemas; None: it has none.
        config: the topic's settings; by ``data.on.error`` ``mark`` and ``dead-letter``, records that don't fit get the reason in
            ``data_error``.
        is_kept: no value is left out, whatever ``value.keep`` says.

    Raises:
        MisfitRecords: a record does not fit, and is not to be marked, or may be of a schema that is not known here yet.
        RequestRefused: values came as columns, and the topic has no schema of values, or they are too large as documents; the
            records are so many and so small that their columns would take far more memory.
    """
    is_kept = is_kept or config.choice("value.keep") == "true"
    if incoming.data is not None:
        return _of_columns(incoming, incoming.data, known, config, is_kept=is_kept)
    if known is None:
        return TypedRecords(incoming)
    if not known.readers.takes(len(incoming), _bytes_of(incoming.records)):
        raise RequestRefused(
            too_wide(len(incoming), known.readers.width),
            code=ErrorCode.REQUEST_TOO_LARGE,
            records_max=CELLS_MAX // known.readers.width,
        )
    typed = _judged(incoming, known, config, known.readers.typed(incoming.records))
    if is_kept or known.readers.value is None:
        return TypedRecords(incoming, typed)
    values, column = incoming.records.column("value").combine_chunks(), typed.column(DATA).combine_chunks()
    return TypedRecords(incoming, typed, known.readers.value.told(column, values))


def too_wide(count: int, width: int) -> str:
    """Say why so many records are refused for the number of their topic's columns."""
    what = (
        f"{count:,} records with {width:,} columns each are more than {CELLS_MAX:,} values, and more than their bytes"
    )
    return f"{what}: send at most {CELLS_MAX // width:,} at once."


def _bytes_of(records: pa.Table) -> int:
    size_bytes: int = records.column("key").nbytes + records.column("value").nbytes
    return size_bytes


def _of_columns(
    incoming: IncomingRecords, data: GivenColumns, known: KnownReaders | None, config: TopicConfig, *, is_kept: bool
) -> TypedRecords:
    if known is None or known.readers.value is None:
        bad = BadRecords()
        bad.add("/data", "is for topics with a schema of their values (value.schema); send the column value instead")
        raise bad.refusal()
    reader = known.readers.value
    try:
        typed = _judged(incoming, known, config, known.readers.typed(incoming.records, data.values, data.bytes_max))
        left_out = None
        if not is_kept:
            column = typed.column(DATA).combine_chunks()
            left_out = reader.told(column, None)
            if not column.null_count and left_out.all() and _are_small(incoming, column, data, config):
                return TypedRecords(incoming, typed, left_out)
        return TypedRecords(
            incoming.with_values(documents_of(known.readers, typed, data.values, data.bytes_max)), typed, left_out
        )
    except UnfitType as unfit:
        bad = BadRecords()
        bad.add("/".join(["/data", *_tokens(unfit.path)]), unfit.what)
        fault = Fault(unfit.path, unfit.what, is_schema_unknown=True)
        raise MisfitRecords([Misfit(0, DATA, fault)], bad.refusal(), is_marked=False) from None
    except DocumentsTooLarge:
        what = f"The records have more than {data.bytes_max} bytes as JSON documents: send fewer at once."
        raise too_large(what, data.bytes_max) from None


def _are_small(incoming: IncomingRecords, column: pa.Array, data: GivenColumns, config: TopicConfig) -> bool:
    """Return whether no document has to be made to know that it is not too large."""
    together_bytes = bytes_at_most(column)
    room = config.integer("max.message.bytes") - largest_record_bytes(incoming.records)
    is_large = together_bytes > room and largest_at_most(column) > room
    return not is_large and together_bytes <= _LEFT_OUT_RATIO * data.bytes_max


def _judged(
    incoming: IncomingRecords,
    known: KnownReaders,
    config: TopicConfig,
    found: tuple[pa.Table, list[Misfit]],
) -> pa.Table:
    """Return the typed columns, unless records are to be refused, or judged by a newer schema: ``MisfitRecords``."""
    typed, misfits = found
    if not misfits:
        return typed
    is_marked = config.choice("data.on.error") != "reject"
    if is_marked and (known.is_newest or not any(misfit.fault.is_schema_unknown for misfit in misfits)):
        return typed
    bad = BadRecords()
    for misfit in misfits:
        part = DATA if misfit.part == "value" and incoming.data is not None else misfit.part
        incoming.places.note(bad, misfit.row, "/".join([part, *_tokens(misfit.fault.path)]), misfit.fault.what)
        if bad.full:
            break
    raise MisfitRecords(misfits, bad.refusal(), is_marked=is_marked)


def _tokens(path: str) -> list[str]:
    return [part for part in path.replace("[", ".").replace("]", "").split(".") if part]
