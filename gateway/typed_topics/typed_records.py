"""The check of one HTTP request's records by their topic's schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from gateway.codec.incoming import IncomingRecords
from gateway.codec.refusal import BadRecords
from log_format.errors import RequestRefused
from log_format.schemas.columns.codec import Misfit, RecordReaders
from log_format.topic.config import TopicConfig


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


def typed_records(incoming: IncomingRecords, known: KnownReaders, config: TopicConfig) -> pa.Table:
    """Return the typed columns of the records.

    Args:
        incoming: the records of a request.
        known: readers of the topic's schemas.
        config: the topic's settings; by ``data.on.error`` ``mark``, records that don't fit get the reason in ``data_error``.

    Raises:
        MisfitRecords: a record does not fit, and is not to be marked, or may be of a schema that is not known here yet.
    """
    typed, misfits = known.readers.typed(incoming.records)
    if not misfits:
        return typed
    is_marked = config.choice("data.on.error") == "mark"
    if is_marked and (known.is_newest or not any(misfit.fault.is_schema_unknown for misfit in misfits)):
        return typed
    bad = BadRecords()
    for misfit in misfits:
        path = "".join(f"/{part}" for part in misfit.fault.path.replace("[", ".").replace("]", "").split(".") if part)
        incoming.places.note(bad, misfit.row, misfit.part + path, misfit.fault.what)
        if bad.full:
            break
    raise MisfitRecords(misfits, bad.refusal(), is_marked=is_marked)
