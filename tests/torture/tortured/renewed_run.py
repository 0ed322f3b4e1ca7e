"""A topic beside the others of a run: deleted and made anew while producers, readers and groups work on it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.torture.tortured import clients
from tests.torture.tortured.checker import summary
from tests.torture.tortured.final_log import by_http
from tests.torture.tortured.history import History
from tests.torture.tortured.joined import joined
from tests.torture.tortured.kafka_clients import produce_by_kafka, transact_by_kafka
from tests.torture.tortured.renewed_by_kafka import consume_by_librdkafka, work_by_id
from tests.torture.tortured.renewed_history import RenewedHistory
from tests.torture.tortured.renewed_judge import Judge, left_behind
from tests.torture.tortured.renewed_readers import be_member, commit_by_id, consume, follow, follow_stream
from tests.torture.tortured.topic_maker import TopicMaker

RENEWED = "renewed"
PARTITIONS = 2
_TOPIC = {RENEWED: PARTITIONS}
REST_SECONDS_MAX = 180.0
END_SECONDS_MAX = 60.0
STREAMS = "streams"
"""Of event streams, one for each partition."""
GROUPS = {"renewed-polls": 2, "renewed-sdk": 2}
"""Members of each group: by polls over HTTP, and the SDK's consumers."""


class RenewedTopic:
    """``pace_seconds``: how long an incarnation lives on average. ``kafka``: addresses of listeners, by commas, or empty."""

    def __init__(
        self,
        urls: list[str],
        seed: int,
        config: dict[str, int],
        pace_seconds: float,
        kafka: str,
        failures: list[str],
        *,
        rest_seconds: float,
    ) -> None:
        self._urls = urls
        self._seed = seed
        self._kafka = kafka
        self._failures = failures
        self._writes = History()
        self._seen = RenewedHistory()
        self._stopping, self._ended = threading.Event(), threading.Event()
        topic = {"name": RENEWED, "partition_count": PARTITIONS, "config": config}
        self._maker = TopicMaker(
            self._client("topic-maker", self._stopping),
            topic,
            self._seen,
            pace_seconds=pace_seconds,
            rest_seconds=rest_seconds,
            kafka=kafka.split(",") if kafka else [],
        )
        self._writing: list[threading.Thread] = []
        self._reading: list[threading.Thread] = []

    def start(self, pace_seconds: float) -> None:
        """``pace_seconds``: between two writes of a producer."""
        self._maker.begin()
        self._writing = [self._start(lambda _client: self._maker.run(), "topic-maker", self._stopping)]
        work = [(clients.produce, "renewed-p0"), (clients.produce, "renewed-p1"), (clients.transact, "renewed-t")]
        work += [(clients.produce_at_once, "renewed-once")]
        self._writing += [self._start(one, name, self._stopping, _TOPIC, pace_seconds) for one, name in work]
        self._writing += [
            self._start(commit_by_id, "renewed-offsets", self._stopping, "renewed-by-id", RENEWED, self._seen)
        ]
        for name in ("reader-by-id-0", "reader-by-id-1"):
            self._read(follow, name, RENEWED, PARTITIONS, self._seen)
        for partition in range(PARTITIONS):
            self._read(follow_stream, f"stream-{partition}", STREAMS, RENEWED, partition, self._seen)
        for number in range(GROUPS["renewed-polls"]):
            self._read(be_member, f"renewed-member-{number}", "renewed-polls", RENEWED, self._seen)
        for reset in ("earliest", "latest"):
            self._read(consume, f"sdk-{reset}", self._urls, RENEWED, {"auto_offset_reset": reset}, self._seen)
        for number in range(GROUPS["renewed-sdk"]):
            settings = {"group": "renewed-sdk", "auto_commit_interval_ms": 500, "session_timeout_ms": 10_000}
            self._read(consume, f"sdk-member-{number}", self._urls, RENEWED, settings, self._seen)
        if self._kafka:
            self._start_by_kafka(pace_seconds)

    def _start_by_kafka(self, pace_seconds: float) -> None:
        work: list[tuple[Callable[..., None], str]] = [
            (produce_by_kafka, "renewed-k"),
            (transact_by_kafka, "renewed-kt"),
        ]
        self._writing += [
            self._start(one, name, self._stopping, self._kafka, _TOPIC, pace_seconds) for one, name in work
        ]
        self._writing += [self._start(work_by_id, "renewed-by-id", self._stopping, self._kafka, RENEWED, self._seen)]
        for group in ("", "renewed-librdkafka"):
            name = group or "librdkafka-alone"
            self._read(consume_by_librdkafka, name, self._kafka, RENEWED, PARTITIONS, group, self._seen)

    def judged(self, end_seconds: float = END_SECONDS_MAX) -> list[str]:
        """Stop deletions and writes, let everyone read to the end, for so long at most, and judge. Nothing is done to gateways
        any more."""
        self._stopping.set()
        found = joined(self._writing, REST_SECONDS_MAX)
        log = {partition: values for (_, partition), values in by_http(self._urls[0], _TOPIC).items()}
        readers = [*GROUPS, STREAMS, "reader-by-id-0", "reader-by-id-1", "sdk-earliest", "sdk-latest"]
        deadline = time.monotonic() + end_seconds
        while behind := left_behind(self._seen, log, readers):
            if time.monotonic() > deadline or self._failures:
                break
            time.sleep(0.3)
        self._ended.set()
        found += joined(self._reading, REST_SECONDS_MAX)
        return found + self._maker.failures + behind + Judge(self._seen, self._writes.writes, log).contradictions()

    def counts(self) -> dict[str, int]:
        """How much of it there was."""
        written = {f"renewed: {name}": count for name, count in summary(self._writes, {}).items() if count}
        return self._seen.counts() | written | dict(self._maker.counts)

    def save(self, path: Path) -> None:
        """One line of JSON for each event."""
        with path.open("wb") as out:
            for event in self._writes.writes:
                out.write(msgspec.json.encode(["writes", event]) + b"\n")
            for kind in dataclasses.fields(RenewedHistory):
                for event in getattr(self._seen, kind.name):
                    out.write(msgspec.json.encode([kind.name, event]) + b"\n")

    def _client(self, name: str, until: threading.Event) -> clients.Client:
        return clients.Client(name, self._urls, self._writes, until, self._seed)

    def _start(
        self, body: Callable[..., None], name: str, until: threading.Event, *arguments: object
    ) -> threading.Thread:
        return clients.start(body, self._client(name, until), *arguments, failures=self._failures)

    def _read(self, body: Callable[..., None], name: str, *arguments: object) -> None:
        self._reading.append(self._start(body, name, self._ended, *arguments))
