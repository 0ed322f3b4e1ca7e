"""What a topic remembers of its producers, inside a checkpoint.

It has no Delta action of its own: it is in the Parquet file's key-value metadata, which other readers ignore. A checkpoint
without it was written by somebody else; then every producer that may have been used before is taken for forgotten.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from log_format.delta import Commit
from log_format.producers import NO_PRODUCERS, Producers, decode_producers
from log_format.topic_config import TopicConfig
from log_format.topic_state import DELETED_PROPERTY, commit_times, stamped_requests

PRODUCERS_KEY: Final = b"tidelog.producers"
"""JSON (``Producers.encoded``), compressed with zlib, as base64, since other readers insist that metadata be text."""
_CLOCKS_DIFFER_MS_MAX: Final = 60_000
"""An id that was used before somebody else's checkpoint bears an issue time at most so much later than the checkpoint's."""


def with_producers(table: pa.Table, producers: Producers) -> pa.Table:
    """A checkpoint's table with this state in its metadata."""
    return table.replace_schema_metadata({PRODUCERS_KEY: base64.b64encode(zlib.compress(producers.encoded()))})


def producers_of(table: pa.Table) -> Producers:
    """The state in a checkpoint's table (``checkpoint.SCHEMA``). Raises ``ValueError`` when it is damaged."""
    data = (table.schema.metadata or {}).get(PRODUCERS_KEY)
    if data is not None:
        try:
            return decode_producers(zlib.decompress(base64.b64decode(data, validate=True)))
        except zlib.error as problem:
            raise ValueError(f"its producers are damaged: {problem}") from problem
    columns = (("add", "modificationTime"), ("txn", "lastUpdated"))
    times = [pc.max(pc.struct_field(table.column(action), name)).as_py() or 0 for action, name in columns]
    return Producers(NO_PRODUCERS.by_id, max(times) + _CLOCKS_DIFFER_MS_MAX)


def follow(producers: Producers, commit: Commit, configuration: Mapping[str, str]) -> Producers:
    """The state after a commit of a topic with these table properties. Raises ``CorruptData``."""
    if configuration.get(DELETED_PROPERTY) == "true":
        return NO_PRODUCERS
    stamped = stamped_requests(commit)
    if not stamped:
        return producers
    used_ms = max([time for time in commit_times(commit) if time is not None], default=0)
    config = TopicConfig.from_properties(configuration)
    return producers.with_batches(stamped, used_ms, config.integer("producer.id.expiration.ms"))
