"""Refusal of records whose timestamps are too far behind or ahead of the gateway's clock for their topic, as in Kafka."""

from __future__ import annotations

from gateway.codec.incoming import IncomingRecords
from gateway.codec.refusal import BadRecords
from log_format.limits import REPORTED_ERRORS_MAX
from log_format.records.timestamps import timestamps_ms
from log_format.topic.config import AcceptedTimes


def refuse_untimely(incoming: IncomingRecords, taken: AcceptedTimes, now_ms: int) -> None:
    """Raise ``RequestRefused`` (400 ``INVALID_RECORD``) naming the records outside of ``taken``. A record without a timestamp
    is of now."""
    times = timestamps_ms(incoming.records, now_ms)
    found = taken.outside(times)
    if not len(found):
        return
    bad = BadRecords()
    for index in found[:REPORTED_ERRORS_MAX].tolist():
        incoming.places.note(bad, index, "timestamp", f"is {times[index]}; {taken}")
    bad.refuse()
