"""One run: start, torture, let everything come to rest, read the end, judge."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import msgspec

from log_format.stores import open_store
from tests.support.server_process import free_port
from tests.torture.tortured import clients
from tests.torture.tortured.checker import Checker, Log, summary
from tests.torture.tortured.final_log import by_http
from tests.torture.tortured.group_history import contradictions as group_contradictions
from tests.torture.tortured.group_history import unlike_the_table
from tests.torture.tortured.group_members import GroupMember
from tests.torture.tortured.group_offsets import OffsetsClient, committed_offsets, ever_committed
from tests.torture.tortured.history import History
from tests.torture.tortured.joined import joined
from tests.torture.tortured.kafka_bytes import read_by_bytes
from tests.torture.tortured.kafka_clients import by_kafka, produce_by_kafka, read_by_kafka, transact_by_kafka
from tests.torture.tortured.kafka_members import PROTOCOLS, KafkaMember
from tests.torture.tortured.misfortune import Misfortune
from tests.torture.tortured.mode_changer import ModeChanger
from tests.torture.tortured.renewed_run import RENEWED, RenewedTopic
from tests.torture.tortured.service import STORE, Service, service
from tests.torture.tortured.stream_witness import StreamWitness
from tests.torture.tortured.table_readers import TableReaders

TOPICS = {"orders": 4, "payments": 3}
REST_SECONDS_MAX = 180.0
DRAIN_MS = 4_000
"""Of topics that are moved: several drains in a short run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much, how long, how bad."""

    seconds: float
    seed: int
    gateways: int = 3
    producers: int = 8
    readers: int = 4
    transactional: int = 2
    members: int = 3
    """Of one group, by polls."""
    committers: int = 2
    """Of offsets without members, each for a group of its own."""
    kafka_clients: int = 0
    """So many producers, transactional loops, readers, and members of a group of each kind by Kafka's protocol, beside those
    over HTTP."""
    pace_seconds: float = 0.1
    freeze_seconds: float = 20.0
    mode_seconds: float | None = None
    """Between two moves of a topic from its own commits to a journal or back; None: no topic is moved."""
    renew_seconds: float = 6.0
    """How long an incarnation of the topic lives that is deleted and made anew."""
    streams: bool = False
    """Whether Spark's streams read on meanwhile."""
    table_readers: int = 2
    """How many threads read tables by the clients of Iceberg and Delta Sharing, which have no timeouts."""
    least: Mapping[str, int] = field(default_factory=dict)
    """Counts below which the run goes on, at most four times as long: on a busy machine less happens in a second."""
    table_seconds: float = 3.0
    """Between two looks of one of them, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run: ``contradictions`` is empty when every guarantee held."""

    counts: dict[str, int]
    contradictions: list[str]
    seconds: float
    others_agree: dict[str, bool] = field(default_factory=dict)


def torture(
    plan: Plan,
    directory: Path,
    *,
    read_as: Callable[[Service], dict[str, Log]] = lambda _service: {},
    progress: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run the plan. ``read_as`` reads the final topics in further ways, by name. The history lies in the directory."""
    history, failures, began = History(), list[str](), time.monotonic()
    listeners = [f"127.0.0.1:{free_port()}" for _ in range(plan.gateways if plan.kafka_clients else 0)]
    kafka = ",".join(listeners)
    environments = {index: {"TIDELOG_KAFKA_LISTEN": address} for index, address in enumerate(listeners)}
    with service(directory, plan.gateways, environments=environments) as running:
        config = {"flush.ms": 50} if plan.mode_seconds is None else {"flush.ms": 50, "drain.ms": DRAIN_MS}
        _create(clients.Client("administrator", running.urls, history, threading.Event(), plan.seed), config)
        stopping = threading.Event()
        witness = StreamWitness(directory, TOPICS, "orders", running.environment) if plan.streams else None
        failures += [] if witness is None else witness.wait_until_ready()

        def make(name: str, until: threading.Event) -> clients.Client:
            return clients.Client(name, running.urls, history, until, plan.seed)

        writing = _start_writing(plan, lambda name: make(name, stopping), kafka, failures)
        groups = _Groups(running, plan, kafka, stopping)
        groups.start()
        renewed = _renewed(plan, running, config, kafka, failures)
        renewed.start(plan.pace_seconds)
        changer = _start_moving(plan, make("operator", stopping), failures)
        ended = threading.Event()
        reading = _start_reading(plan, lambda name: make(name, ended), kafka, failures)
        tables = _start_tables(plan, running, lambda name: make(name, ended), failures)

        def is_enough() -> bool:
            happened = summary(history, {}) | groups.counts() | renewed.counts()
            return all(happened.get(name, 0) >= count for name, count in plan.least.items())

        _misfortune(plan, running, history, failures, progress, is_enough)
        stopping.set()
        failures += joined(writing, REST_SECONDS_MAX)
        failures += groups.judged()
        failures += renewed.judged()
        log = by_http(running.urls[0], TOPICS)
        if changer is not None:
            failures += changer.settle()
            if by_http(running.urls[-1], TOPICS) != log:
                failures.append("the log is another one once all topics have their own commits")
        time.sleep(1.0)
        ended.set()
        for thread in reading:
            thread.join(REST_SECONDS_MAX)
        failures += [] if witness is None else witness.judged(log)
        failures += [line for one in tables for line in one.judged()]
        others = read_as(running) | ({"Kafka": by_kafka(kafka, TOPICS)} if kafka else {})
        failures += [
            f"gateway {i} ended with {code}" for i, g in enumerate(running.gateways) if (code := g.stop()) != 0
        ]
    history.save(directory / "history.jsonl")
    renewed.save(directory / "renewed.jsonl")
    groups.save(directory / "groups.jsonl")
    return Outcome(
        counts=summary(history, log)
        | groups.counts()
        | renewed.counts()
        | ({} if changer is None else dict(changer.counts))
        | ({} if witness is None else witness.counts())
        | dict(sum((one.counts for one in tables), Counter[str]())),
        contradictions=failures + Checker(history, log).contradictions(),
        seconds=time.monotonic() - began,
        others_agree={name: other == log for name, other in others.items()},
    )


def _create(admin: clients.Client, config: dict[str, int]) -> None:
    for topic, count in TOPICS.items():
        made = {"name": topic, "partition_count": count, "config": config}
        reply, _, _ = admin.insist("POST", "/v1/topics", made)
        assert reply.status in {200, 201}, reply


def _renewed(plan: Plan, running: Service, config: dict[str, int], kafka: str, failures: list[str]) -> RenewedTopic:
    rest_seconds = min(plan.freeze_seconds, 15.0)
    return RenewedTopic(running.urls, plan.seed, config, plan.renew_seconds, kafka, failures, rest_seconds=rest_seconds)


def _misfortune(
    plan: Plan,
    running: Service,
    history: History,
    failures: list[str],
    progress: Callable[[str], None],
    is_enough: Callable[[], bool],
) -> None:
    """Do to the service what the plan says, for so long and until enough has happened, and undo it."""
    calm = threading.Event()
    misfortune = threading.Thread(
        target=Misfortune(running, history, plan.seed, calm, plan.freeze_seconds).run,
        name="misfortune",
        daemon=True,
    )
    misfortune.start()
    began = time.monotonic()
    while not failures:
        left = plan.seconds - (time.monotonic() - began)
        if left <= 0 and (is_enough() or left < -3 * plan.seconds):
            break
        progress(
            f"{left:.0f} s left, {len(history.writes)} writes, {len(history.reads)} polls, {len(history.faults)} faults"
        )
        time.sleep(1.0)
    calm.set()
    misfortune.join(REST_SECONDS_MAX)


def _start_writing(
    plan: Plan, make: Callable[[str], clients.Client], kafka: str, failures: list[str]
) -> list[threading.Thread]:
    work = [(clients.produce, f"producer-{i}") for i in range(plan.producers)]
    work += [(clients.transact, f"transactor-{i}") for i in range(plan.transactional)]
    work += [(clients.produce_at_once, "at-once")] if plan.mode_seconds is not None else []
    started = [clients.start(one, make(name), TOPICS, plan.pace_seconds, failures=failures) for one, name in work]
    by_protocol = [(produce_by_kafka, "kafka-producer"), (transact_by_kafka, "kafka-transactor")]
    return started + [
        clients.start(one, make(f"{name}-{i}"), kafka, TOPICS, plan.pace_seconds, failures=failures)
        for one, name in by_protocol
        for i in range(plan.kafka_clients)
    ]


def _start_reading(
    plan: Plan, make: Callable[[str], clients.Client], kafka: str, failures: list[str]
) -> list[threading.Thread]:
    reading = [clients.start(clients.read, make(f"reader-{i}"), TOPICS, failures=failures) for i in range(plan.readers)]
    return reading + [
        clients.start(one, make(f"{name}-{i}"), kafka, TOPICS, failures=failures)
        for one, name in ((read_by_kafka, "kafka-reader"), (read_by_bytes, "kafka-bytes"))
        for i in range(plan.kafka_clients)
    ]


def _start_moving(plan: Plan, client: clients.Client, failures: list[str]) -> ModeChanger | None:
    if plan.mode_seconds is None:
        return None
    changer = ModeChanger(client, [*TOPICS, RENEWED], plan.mode_seconds)
    clients.start(lambda _client: changer.run(), client, failures=failures)
    return changer


def _start_tables(
    plan: Plan, running: Service, make: Callable[[str], clients.Client], failures: list[str]
) -> list[TableReaders]:
    names = [f"tables-{number}" for number in range(plan.table_readers)]
    readers = [TableReaders(make(name), running, TOPICS, plan.table_seconds) for name in names]
    for one in readers:
        one.start(failures)
    return readers


class _Groups:
    """The consumers of a run: a group of members that poll, committers of offsets, and a group of each of Kafka's protocols."""

    def __init__(self, running: Service, plan: Plan, kafka: str, stopping: threading.Event) -> None:
        self._running = running
        self._by_kafka = [
            KafkaMember(f"kafka-{one}-{i}", kafka, f"kafka-{one}", "orders", protocol=one, stopping=stopping)
            for one in PROTOCOLS
            for i in range(plan.kafka_clients)
        ]
        self._members = [
            GroupMember(
                f"member-{i}",
                running.urls[i % plan.gateways :] + running.urls[: i % plan.gateways],
                "consumers",
                "orders",
                session_ms=10_000,
                work_seconds=0.05,
                stopping=stopping,
            )
            for i in range(plan.members)
        ]
        self._committers = [
            OffsetsClient(f"offsets-{i}", running.urls, "payments", stopping, plan.pace_seconds)
            for i in range(plan.committers)
        ]

    def start(self) -> None:
        """From now on poll and commit."""
        for thread in (*self._members, *self._committers, *self._by_kafka):
            thread.start()

    def judged(self) -> list[str]:
        """Wait for the last answers; what the histories say against each other and against the table."""
        everybody = (*self._members, *self._committers, *self._by_kafka)
        found = joined(everybody, REST_SECONDS_MAX)
        with mock.patch.dict(os.environ, self._running.environment):
            store = open_store(STORE)
        groups = {"consumers": [history for member in self._members for history in member.histories]}
        for member in self._by_kafka:
            groups.setdefault(member.group, []).extend(member.histories)
        for group, histories in groups.items():
            has_any = any(commit.ended is not None for history in histories for commit in history.commits)
            offsets = committed_offsets(self._running.urls[0], group) if has_any else {}
            lines = group_contradictions(histories, offsets)
            lines += unlike_the_table(histories, ever_committed(store, group))
            found += [f"{group}: {line}" for line in lines]
        for committer in self._committers:
            found += unlike_the_table([committer.history], ever_committed(store, committer.group))
        return found

    def save(self, path: Path) -> None:
        """A line of JSON for each member of each group."""
        with path.open("wb") as out:
            named = [(one.name, one.histories) for one in self._members]
            named += [(one.name, one.histories) for one in self._by_kafka]
            for name, histories in named:
                out.writelines(msgspec.json.encode([name, history]) + b"\n" for history in histories)

    def counts(self) -> dict[str, int]:
        """How much of it there was."""
        histories = [history for member in self._members for history in member.histories]
        by_kafka = [history for member in self._by_kafka for history in member.histories]
        alone = [committer.history for committer in self._committers]
        return {
            "polls": sum(member.polls for member in self._members),
            "polls: commit acknowledged": sum(one.ended is not None for h in histories for one in h.commits),
            "polls: commit in doubt": sum(one.ended is None for h in histories for one in h.commits),
            "polls: commit refused": sum(len(h.refused) for h in histories),
            "Kafka's members: records": sum(len(h.processed) for h in by_kafka),
            "Kafka's members: commit acknowledged": sum(one.ended is not None for h in by_kafka for one in h.commits),
            "Kafka's members: commit in doubt": sum(one.ended is None for h in by_kafka for one in h.commits),
            "offsets: acknowledged": sum(one.ended is not None for h in alone for one in h.commits),
            "offsets: in doubt": sum(one.ended is None for h in alone for one in h.commits),
            "offsets: refused": sum(len(h.refused) for h in alone),
            "offsets: resets": sum(committer.resets for committer in self._committers),
        }
