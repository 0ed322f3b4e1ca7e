"""Decoding of a request body to records, by its media type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gateway.codec.arrow_body import decode_arrow
from gateway.codec.incoming import IncomingRecords
from gateway.codec.json_body import decode_json
from gateway.codec.media_type import ARROW_STREAM, JSON, NDJSON
from gateway.codec.ndjson_body import decode_ndjson
from gateway.codec.raw_body import decode_raw

_OF_RAW_BODIES: Final = ("key", "key_base64", "partition", "timestamp", "deliver_at", "deliver_after_ms")
_COPIED_ABOVE: Final = 2
"""Ratio of the body's size to its Arrow records above which these, which refer to the body, are copied so that it can be
freed."""


def decode_body(kind: str, data: bytes, bytes_max: int, raw: Mapping[str, Any]) -> IncomingRecords:
    """Decode the records of a body.

    Args:
        kind: The body's media type.
        data: The body.
        bytes_max: Most bytes of the plain records of an Arrow body.
        raw: Key, partition and times of a raw body's record, from the query.

    Raises:
        RequestRefused: The body or a record is invalid, or too large.
    """
    if kind == JSON:
        return decode_json(data)
    if kind == NDJSON:
        return decode_ndjson(data)
    if kind == ARROW_STREAM:
        incoming = decode_arrow(data, bytes_max=bytes_max)
        if incoming.data is None and len(data) > _COPIED_ABOVE * incoming.records.nbytes and len(incoming):
            return incoming.with_records(incoming.records.take(pa.array(np.arange(len(incoming)))))
        return incoming
    return decode_raw(data, **{name: raw.get(name) for name in _OF_RAW_BODIES})
