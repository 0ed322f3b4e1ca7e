"""Refusal of records without a key in topics that compact keys, as in Kafka: no later record would ever supersede them."""

from __future__ import annotations

import numpy as np

from gateway.codec.incoming import IncomingRecords
from gateway.codec.refusal import BadRecords
from log_format.limits import REPORTED_ERRORS_MAX


def refuse_keyless(incoming: IncomingRecords) -> None:
    """Raise ``RequestRefused`` (400 ``INVALID_RECORD``) naming the records without a key; an empty key counts as a key."""
    keys = incoming.records.column("key")
    if not keys.null_count:
        return
    bad = BadRecords()
    for index in np.flatnonzero(keys.is_null().to_numpy())[:REPORTED_ERRORS_MAX].tolist():
        incoming.places.note(bad, index, "key", "is missing or null; the topic's cleanup.policy has compact")
    bad.refuse()
