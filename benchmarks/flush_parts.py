"""``python benchmarks/flush_parts.py STORE``: CPU µs of each part of a small own flush, called alone, as one line of JSON.

It runs in a process of its own and imports the project from ``PYTHONPATH``, so that two trees of the source can be compared.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa

from gateway.codec.body_records import decode_body
from gateway.codec.media_type import JSON
from gateway.routes.batch import Routing, batch_of
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.actions import CommitInfo, decode_commit, encode_commit
from log_format.delta.committer import Committer
from log_format.layout import table_commit_key
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.state import TopicState

TIMES = 300
WARM = 30
BODY = b'{"records":[{"key":"key-1234","value":"' + b"v" * 100 + b'"}]}'


class Prices:
    """User and system time of each part, all threads of the process."""

    def __init__(self) -> None:
        self._us: dict[str, list[float]] = defaultdict(list)

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count what runs inside."""
        started = time.process_time_ns()
        yield
        self._us[part].append((time.process_time_ns() - started) / 1000)

    def medians(self) -> dict[str, float]:
        """The middle price of each part, warm."""
        return {part: statistics.median(prices[WARM:]) for part, prices in self._us.items()}


def flushes(store_uri: str) -> dict[str, float]:
    """Flush after flush of one record to one topic, in one thread."""
    store, topic, prices = open_store(store_uri), f"parts-{uuid.uuid4()}", Prices()
    log = TopicLog(store, topic, SystemClock())
    created = CreateTopic(name=topic, partition_count=8, config=TopicConfig.parse({}), topic_id=new_id())
    Committer(log, new_id=new_id).commit(created)
    for _ in range(WARM + TIMES):
        state = log.state
        now_ms = int(time.time() * 1000)
        with prices.of("decode and route the request"):
            batch = _batch(state, now_ms)
        append = Append([batch], new_id)
        with prices.of("encode the segment"):
            segment = append.stage(state, state.next_offsets)
        assert segment is not None
        with prices.of("put the segment"):
            store.put(f"{log.table.root}{segment.path}", segment.data)
        with prices.of("propose the commit, encode and decode it"):
            actions = append.propose(state, now_ms).actions
            info = CommitInfo(
                timestamp=now_ms,
                operation="WRITE",
                operation_parameters={},
                engine_info="tidelog-parts/1",
                txn_id=new_id(),
            )
            data = encode_commit(info, actions)
            commit = decode_commit(data, "parts")
        key = table_commit_key(log.table.root, state.version + 1)
        with prices.of("put the commit if absent"):
            store.put_if_absent(key, data)
        with prices.of("apply the commit"):
            log.apply(commit, state.version + 1)
    return prices.medians()


def _batch(state: TopicState, now_ms: int) -> Batch:
    incoming = decode_body(JSON, BODY, 1 << 20, {})
    batch = batch_of(incoming, state, Routing(partition=None, turn=0, arrived_at_ms=now_ms)).batch
    assert batch is not None
    return batch


def new_id() -> str:
    return str(uuid.uuid4())


if __name__ == "__main__":
    # As the gateway does (gateway/process/assembly.py).
    pa.set_memory_pool(pa.system_memory_pool())
    print(json.dumps(flushes(sys.argv[1])))
