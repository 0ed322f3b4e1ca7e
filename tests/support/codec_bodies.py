"""What the codec's property tests share: how bodies are judged, and the characters that are hard for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gateway.codec.incoming import IncomingRecords
from log_format.errors import RequestRefused

BYTES_MAX = 1 << 20
BOUNDED = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
CHARACTERS = st.one_of(
    st.sampled_from('"\\/{}[]:,-0 \n\t\x00\x1f\x7fé\u2028\U0001f600'), st.characters(exclude_categories=["Cs"])
)


def as_rows(incoming: IncomingRecords) -> list[dict[str, Any]]:
    """The same form as the reference's."""
    incoming.records.validate(full=True)
    partitions = [None] * len(incoming) if incoming.partitions is None else incoming.partitions.tolist()
    timestamps = incoming.records.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        {
            "partition": None if partition == -1 else partition,
            "timestamp": None if timestamp is None else timestamp // 1000,
            "key": row["key"],
            "value": row["value"],
            "headers": row["headers"] or [],
        }
        for row, partition, timestamp in zip(
            incoming.records.select(["key", "value", "headers"]).to_pylist(), partitions, timestamps, strict=True
        )
    ]


def outcome(decode: Callable[[], IncomingRecords]) -> list[dict[str, Any]] | None:
    """The rows, or None when the body was refused as bodies are."""
    try:
        incoming = decode()
    except RequestRefused as error:
        refusal = error
    else:
        return as_rows(incoming)
    assert refusal.status in (400, 413)
    if refusal.status == 400:
        assert 1 <= len(refusal.fields["errors"]) <= 20
        assert all(set(error) == {"where", "what"} for error in refusal.fields["errors"])
    json.dumps(refusal.fields).encode()
    return None
