"""The gateways' clients: producers, readers and an administrator, written against the HTTP contract alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.simulation.simulated.faults import SECOND_MS
from tests.simulation.simulated.scheduler import Machine, Scheduler
from tests.simulation.simulated_service.judge import Judge
from tests.simulation.simulated_service.network import Lost, Network, Reply
from tests.simulation.simulated_service.service import Service

RETRIES_MAX = 60
AT_ONCE = 2
CLOSE_MS = 40
"""About what a flush takes when nothing is slow."""

UNNUMBERED_EVERY: Final = 3
"""So many requests of a producer of whole requests have one without a number among them."""


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What every client has."""

    scheduler: Scheduler
    rng: random.Random
    network: Network
    judge: Judge
    any_service: Callable[[], Service]
    think: Callable[[], None]
    new_value: Callable[[], bytes]
    topics: tuple[str, ...]
    partitions_max: int
    """Clients use so many partitions; a topic is made with ``partitions_made``."""
    partitions_made: int
    new_config: Callable[[], dict[str, Any]]
    """What a topic is made with beside ``flush.ms``."""
    turns: int
    outside: Machine
    """Where clients run."""
    is_quiet: Callable[[], bool]
    """Whether nothing is wrong, nor was lately."""
    says_ids: bool = False
    """Readers say which topic their positions belong to."""

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply | Lost:
        """A request to any gateway."""
        return self.ask(self.any_service(), method, path, body, headers)

    def ask(
        self, service: Service, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply | Lost:
        """A request to this gateway."""
        quiet = self.is_quiet()
        reply = self.network.call(service, method, path, body, headers)
        if quiet:
            self.judge.answered_in_quiet(f"{method} {path} of {service.machine.name}", reply)
        return reply


def values_of_turn(around: Surroundings) -> dict[int, list[bytes]]:
    """New values for some partitions."""
    count = around.partitions_made
    if around.partitions_max > count and around.rng.random() < 0.15:
        count = around.partitions_max
    partitions = around.rng.sample(range(count), around.rng.randrange(1, count + 1))
    return {p: [around.new_value() for _ in range(around.rng.randrange(1, 4))] for p in sorted(partitions)}


def _records(values: dict[int, list[bytes]]) -> Any:
    return {"records": [{"partition": p, "value": v.decode()} for p, held in values.items() for v in held]}


def _flat(values: dict[int, list[bytes]]) -> list[bytes]:
    return [value for held in values.values() for value in held]


def plain_producer(around: Surroundings, name: str) -> None:
    """Sends, and never repeats what may have happened."""
    for _ in range(around.turns):
        around.think()
        topic, values = around.rng.choice(around.topics), values_of_turn(around)
        reply = around.call("POST", f"/v1/topics/{topic}/records", _records(values))
        if reply is Lost.NO_ANSWER:
            around.judge.unknown("answer lost")
        elif isinstance(reply, Reply):
            if reply.status == 200:
                around.judge.acknowledged(name, topic, values, reply.body)
            elif reply.may_have_happened:
                around.judge.unknown(reply.error_code)
            else:
                around.judge.refused(_flat(values), reply)


class IdempotentProducer:
    """Numbers its requests to a topic, and repeats each by any gateway until it knows (G5)."""

    def __init__(self, around: Surroundings, name: str) -> None:
        self._around = around
        self._name = name
        self._topic = around.rng.choice(around.topics)
        self._identity: dict[str, str] = {}
        self._life = 0
        self._sequence = 0

    def run(self) -> None:
        """Live."""
        around = self._around
        for _ in range(around.turns):
            around.think()
            if not self._identity and not self._begin():
                return
            self._send(values_of_turn(around))

    def _begin(self) -> bool:
        for _ in range(RETRIES_MAX):
            reply = self._around.call("POST", "/v1/producers", {})
            if isinstance(reply, Reply) and reply.status == 201:
                self._identity = {
                    "Tidelog-Producer-Id": reply.body["producer_id"],
                    "Tidelog-Producer-Epoch": str(reply.body["epoch"]),
                }
                self._sequence = 0
                self._life += 1
                return True
            self._around.think()
        return False

    def _send(self, values: dict[int, list[bytes]]) -> None:
        around = self._around
        headers = {**self._identity, "Tidelog-Producer-Sequence": str(self._sequence)}
        in_doubt = False
        for _ in range(RETRIES_MAX):
            began_ms = around.scheduler.now_ms
            reply = around.call("POST", f"/v1/topics/{self._topic}/records", _records(values), headers)
            if isinstance(reply, Lost):
                in_doubt |= reply is Lost.NO_ANSWER
            elif reply.status == 200:
                name, during = f"{self._name}.{self._life}", (began_ms, around.scheduler.now_ms)
                around.judge.acknowledged(name, self._topic, values, reply.body, during)
                if in_doubt:
                    around.judge.unknown("known after doubt")
                self._sequence += 1
                return
            elif reply.may_have_happened:
                in_doubt = True
            elif not reply.body["retryable"]:
                if in_doubt:
                    # A refusal speaks of this try only: an earlier one may be in the log.
                    around.judge.unknown("refused after doubt")
                else:
                    around.judge.refused(_flat(values), reply)
                self._identity = {}
                return
            around.scheduler.sleep_ms(around.rng.randrange(50, 3 * SECOND_MS))
        around.judge.unknown("given up")
        self._identity = {}


class AtOnceProducer:
    """Appends to several topics by one request, numbered over all of them, and repeats each until it knows (G5, G6)."""

    def __init__(self, around: Surroundings, name: str) -> None:
        self._around = around
        self._name = name
        self._identity: dict[str, str] = {}
        self._life = 0
        self._sequence = 0

    def run(self) -> None:
        """Live."""
        around = self._around
        for turn in range(around.turns):
            around.think()
            if not self._identity:
                self._begin()
            topics = around.rng.sample(around.topics, around.rng.randrange(1, len(around.topics) + 1))
            sent = {topic: values_of_turn(around) for topic in topics}
            if turn % UNNUMBERED_EVERY:
                self._send(sent)
            else:
                self._send_once(sent, turn)

    def _send_once(self, sent: dict[str, dict[int, list[bytes]]], turn: int) -> None:
        """Without a number: it is not repeated."""
        around = self._around
        body = {"topics": [{"topic": topic, **_records(values)} for topic, values in sent.items()]}
        reply = around.call("POST", "/v1/records", body, {})
        if not isinstance(reply, Lost) and reply.status == 200:
            around.judge.committed(f"{self._name}, turn {turn}", sent, reply.body)
            around.judge.told["at once, unnumbered"] += 1
        elif reply is Lost.NO_ANSWER or (not isinstance(reply, Lost) and reply.may_have_happened):
            around.judge.in_doubt(sent)
        else:
            around.judge.aborted(sent)

    def _begin(self) -> None:
        reply = self._around.call("POST", "/v1/producers", {})
        if isinstance(reply, Reply) and reply.status == 201:
            self._identity = {
                "Tidelog-Producer-Id": reply.body["producer_id"],
                "Tidelog-Producer-Epoch": str(reply.body["epoch"]),
            }
            self._sequence = 0
            self._life += 1

    def _send(self, sent: dict[str, dict[int, list[bytes]]]) -> None:
        around = self._around
        if not self._identity:
            return
        headers = {**self._identity, "Tidelog-Producer-Sequence": str(self._sequence)}
        body = {"topics": [{"topic": topic, **_records(values)} for topic, values in sent.items()]}
        in_doubt = False
        for _ in range(RETRIES_MAX):
            reply = around.call("POST", "/v1/records", body, headers)
            if isinstance(reply, Lost):
                in_doubt |= reply is Lost.NO_ANSWER
            elif reply.status == 200:
                around.judge.committed(f"{self._name}.{self._life}", sent, reply.body)
                around.judge.told["at once, repeated" if reply.body["duplicate"] else "at once"] += 1
                self._sequence += 1
                return
            elif reply.may_have_happened:
                in_doubt = True
            elif not reply.body["retryable"]:
                if in_doubt:
                    around.judge.in_doubt(sent)
                else:
                    around.judge.aborted(sent)
                self._identity = {}
                return
            around.scheduler.sleep_ms(around.rng.randrange(50, 3 * SECOND_MS))
        around.judge.in_doubt(sent)
        self._identity = {}


class TransactionalLoop:
    """Transactions over the topics, by any gateway; each call is repeated until it is known (G6)."""

    def __init__(self, around: Surroundings, name: str) -> None:
        self._around = around
        self._name = name

    def run(self) -> None:
        """Live."""
        for _ in range(self._around.turns):
            self._around.think()
            begun = self._insist("/v1/transactions", {"transactional_id": self._name, "timeout_ms": 30_000})
            if begun is not None and begun.status == 201:
                self._one(begun.body)

    def _one(self, begun: Any) -> None:
        around = self._around
        transaction = begun["transaction_id"]
        headers = {
            "Tidelog-Transaction": transaction,
            "Tidelog-Producer-Id": begun["producer_id"],
            "Tidelog-Producer-Epoch": str(begun["epoch"]),
            "Tidelog-Producer-Sequence": "0",
        }
        sent: dict[str, dict[int, list[bytes]]] = {}
        for topic in around.rng.sample(around.topics, around.rng.randrange(1, len(around.topics) + 1)):
            values, began_ms = values_of_turn(around), around.scheduler.now_ms
            reply = self._insist(f"/v1/topics/{topic}/records", _records(values), headers)
            sent[topic] = values
            if reply is None or reply.status != 202:
                # Not all of it is staged: it is not committed, so nothing of it may ever appear.
                around.judge.aborted(sent)
                return
            around.judge.staged(topic, values, (began_ms, around.scheduler.now_ms))
        action = around.rng.choice(("commit", "commit", "commit", "abort"))
        if action == "commit" and around.rng.random() < 0.1:
            around.scheduler.sleep_ms(31 * SECOND_MS)
        reply = self._insist(f"/v1/transactions/{transaction}:{action}", None)
        if reply is None or reply.may_have_happened:
            around.judge.in_doubt(sent)
        elif action == "abort" or reply.status != 200:
            around.judge.aborted(sent)
        else:
            around.judge.committed(self._name, sent, reply.body)

    def _insist(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Reply | None:
        """The first answer that is no doubt and no refusal for the moment; None when there is none."""
        for _ in range(RETRIES_MAX):
            reply = self._around.call("POST", path, body, headers)
            if isinstance(reply, Reply) and (
                reply.status < 400 or not (reply.may_have_happened or reply.body["retryable"])
            ):
                return reply
            self._around.scheduler.sleep_ms(self._around.rng.randrange(50, 2 * SECOND_MS))
        return None


def last_words(around: Surroundings, service: Service, rounds: int) -> None:
    """When everything is over: a few appends to each topic through one gateway, close behind each other, and then silence."""

    def say(topic: str, said: list[str]) -> None:
        around.scheduler.sleep_ms(around.rng.randrange(CLOSE_MS))
        around.ask(service, "POST", f"/v1/topics/{topic}/records", _records(values_of_turn(around)))
        said.append(topic)

    for topic in around.topics:
        make(around, topic)
        for _ in range(rounds):
            said: list[str] = []
            for _ in range(AT_ONCE):
                around.scheduler.start(f"somebody writes to {topic}", around.outside, partial(say, topic, said))
            while len(said) < AT_ONCE:
                around.scheduler.sleep_ms(CLOSE_MS)


def reader(around: Surroundings, topic: str, busy: Callable[[], bool]) -> None:
    """Polls every partition from where it is."""
    positions: dict[int, int] = {}
    ids: dict[int, str] = {}
    while busy():
        around.think()
        for partition in range(around.partitions_max):
            offset = positions.get(partition, 0)
            wait_ms = around.rng.choice((0, 0, 300, 2 * SECOND_MS))
            started_ms = around.scheduler.now_ms
            path = (
                f"/v1/topics/{topic}/partitions/{partition}/records?offset={offset}&max_records=5&max_wait_ms={wait_ms}"
            )
            if partition in ids:
                path += f"&topic_id={ids[partition]}"
            reply = around.call("GET", path)
            if isinstance(reply, Lost):
                continue
            if reply.status == 200:
                if around.says_ids:
                    offset = around.judge.fetched_of(topic, partition, offset, ids.get(partition), reply.body)
                    ids[partition] = reply.body["topic_id"]
                around.judge.fetched(topic, partition, offset, reply.body, started_ms, around.scheduler.now_ms)
                positions[partition] = reply.body["next_offset"]
            elif reply.error_code == "OFFSET_OUT_OF_RANGE":
                positions[partition] = reply.body["log_start_offset"]
            elif reply.error_code == "UNKNOWN_TOPIC" and not around.says_ids:
                positions.clear()


def administrator(around: Surroundings, share: float) -> None:
    """Makes the topics, and then now and then deletes one and makes it anew, or moves its log start."""
    for topic in around.topics:
        make(around, topic)
    for _ in range(around.turns):
        around.think()
        if around.rng.random() >= share:
            continue
        topic = around.rng.choice(around.topics)
        match around.rng.randrange(3):
            case 0 | 1:
                around.call("DELETE", f"/v1/topics/{topic}")
                around.think()
                make(around, topic)
            case _:
                before = [
                    {"partition": p, "offset": around.rng.choice((-1, 1, 2))} for p in range(around.partitions_max)
                ]
                around.call("POST", f"/v1/topics/{topic}:delete-records", {"before": before})


def make(around: Surroundings, topic: str) -> None:
    """See to it that the topic exists."""
    body = {
        "name": topic,
        "partition_count": around.partitions_made,
        "config": {"flush.ms": around.rng.choice((0, 50, 250)), **around.new_config()},
    }
    for _ in range(RETRIES_MAX):
        reply = around.call("POST", "/v1/topics", body)
        if isinstance(reply, Reply) and (reply.status < 300 or reply.error_code == "TOPIC_ALREADY_EXISTS"):
            return
        around.think()
