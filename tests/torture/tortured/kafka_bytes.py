"""A reader by Kafka's protocol without a client library: what it sees is what the gateway sent."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Final

from kafka.record.memory_records import MemoryRecords
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Closed, Wire
from tests.torture.tortured.clients import Client
from tests.torture.tortured.history import Read

FETCH_BYTES: Final = 1 << 20
FETCH_VERSION: Final = 12
"""The last one that names topics by name."""
WAITS_MS: Final = (0, 100, 500)


def read_by_bytes(client: Client, servers: str, topics: dict[str, int]) -> None:
    """Fetches all partitions from offset 0 on, some at once, at any gateway; a connection lasts a few fetches."""
    positions = {(topic, partition): 0 for topic, count in topics.items() for partition in range(count)}
    while not client.stopping.is_set():
        with contextlib.suppress(OSError, Closed), Wire(client.rng.choice(servers.split(",")), seconds=10) as wire:
            for _ in range(client.rng.randrange(1, 10)):
                topic = client.rng.choice(list(topics))
                lines = [line for line in positions if line[0] == topic and client.rng.random() < 0.7]
                if lines and not client.stopping.is_set():
                    _fetch(client, wire, lines, positions)
        client.stopping.wait(0.05)


def _fetch(client: Client, wire: Wire, lines: list[tuple[str, int]], positions: dict[tuple[str, int], int]) -> None:
    started = time.monotonic()
    partitions = [asked_for(partition, positions[topic, partition]) for topic, partition in lines]
    asked = request(client.rng.choice(WAITS_MS)) | {"topics": [{"topic": lines[0][0], "partitions": partitions}]}
    for told in wire.call("fetch", FETCH_VERSION, **asked).responses:
        for part in told.partitions:
            line = (str(told.topic), int(part.partition_index))
            offset = positions[line]
            if part.error_code is not KafkaError.none:
                continue
            found, following = records(part.records, offset)
            client.history.add(
                Read(
                    client=client.name,
                    topic=line[0],
                    partition=line[1],
                    offset=offset,
                    values=[value for _, value in found],
                    offsets=[one for one, _ in found],
                    next_offset=following,
                    high_watermark=int(part.high_watermark),
                    started=started,
                    ended=time.monotonic(),
                )
            )
            positions[line] = following


def request(wait_ms: int) -> dict[str, Any]:
    """A fetch outside of a session, but for its topics."""
    asked: dict[str, Any] = {"max_wait": wait_ms, "min_bytes": 1, "max_bytes": FETCH_BYTES, "isolation_level": 1}
    return asked | {"replica_id": -1, "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}


def asked_for(partition: int, offset: int) -> dict[str, int]:
    """A partition in a fetch."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
    return wanted | {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}


def records(data: bytes | None, offset: int) -> tuple[list[tuple[int, str]], int]:
    """Offsets and values from ``offset`` on, and where the last batch ends, with records or without."""
    batches = MemoryRecords(data or b"")
    found, following = [], offset
    while batches.has_next():
        batch = batches.next_batch()
        found += [(one.offset, (one.value or b"").decode()) for one in batch if one.offset >= offset]
        following = max(following, batch.base_offset + batch.last_offset_delta + 1)
    return found, following
