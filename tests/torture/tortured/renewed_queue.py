"""A queue whose topic is deleted and made anew: a producer, workers over HTTP, and the judge of what they saw.

1. Each record of the last incarnation is delivered and settled as ``queue_history`` says. What was settled in an earlier one, or
   is settled under a lease of it, settles nothing in this one.
2. A record is delivered from the place at which it was acknowledged, and not long after its incarnation is gone.
3. No delivery counts what was delivered at the same place of an earlier incarnation.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tests.torture.tortured import clients
from tests.torture.tortured.final_log import by_http
from tests.torture.tortured.history import History, Write
from tests.torture.tortured.queue_clients import DELIVERIES_MAX, work
from tests.torture.tortured.queue_history import Found, Place, QueueHistory, of_leases, of_settlements
from tests.torture.tortured.queue_processes import letters_of
from tests.torture.tortured.renewed_history import Life, RenewedHistory
from tests.torture.tortured.topic_maker import TopicMaker

TOPIC = "renewed-jobs"
PARTITIONS = 2
QUEUE = "renewed-work"
LETTERS = "dead-renewed-jobs"
LOCK_MS = 4_000
WORKERS = 2
SEEN_SECONDS = 5.0
"""Within so long a queue acts upon the end of what it reads."""
SETTLE_SECONDS_MAX = 240.0


def contradictions(
    history: QueueHistory,
    writes: Iterable[Write],
    lives: Sequence[Life],
    log: Mapping[str, Place],
    letters: Mapping[str, list[Place]],
) -> list[str]:
    """``log``: each value's place in the last incarnation, all settled; ``letters``: the places that dead letters name."""
    # What was sent again may be in two incarnations, at places of which only the last one was told.
    sent = {value: write for write in writes if write.attempts == 1 for value in _values(write)}
    whole = QueueHistory(
        deliveries=[one for one in history.deliveries if one.value in sent],
        settlements=[one for one in history.settlements if one.value in sent],
        lost=history.lost,
    )
    last = {value: [Found(place=place, due_ms=None, read_ms=0)] for value, place in log.items() if value in sent}
    found = [*of_leases(whole, DELIVERIES_MAX), *_of_deliveries(whole, sent, lives)]
    found += of_settlements(_only(whole, last), last, {value: letters[value] for value in last.keys() & letters.keys()})
    found += [f"{one.value} is in no request" for one in history.deliveries if one.value not in _all_values(writes)]
    return found


def _of_deliveries(history: QueueHistory, sent: Mapping[str, Write], lives: Sequence[Life]) -> Iterator[str]:
    before: Counter[str] = Counter()
    for one in sorted(history.deliveries, key=lambda delivery: delivery.asked):
        before[one.value] += 1
        write = sent[one.value]
        told = {
            value: (place.partition, place.base_offset + number)
            for place in write.places
            for number, value in enumerate(place.values)
        }
        if told.get(one.value, one.place) != one.place:
            yield f"{one.value} was delivered from {one.place}, and is at {told[one.value]}"
        lost = sum(at < one.got for at in history.lost)
        if one.count > before[one.value] + lost:
            yield f"{one.value} was delivered with count {one.count} at its delivery number {before[one.value]}"
        until = write.ended if write.outcome == "acknowledged" else float("inf")
        held = [life for life in lives if life.may_be_there(write.started, until)]
        if not any(one.asked <= life.died[1] + SEEN_SECONDS for life in held):
            yield f"{one.value} was delivered after its topic was gone"


def _only(history: QueueHistory, log: Mapping[str, object]) -> QueueHistory:
    return QueueHistory(
        deliveries=[one for one in history.deliveries if one.value in log],
        settlements=[one for one in history.settlements if one.value in log],
    )


def _values(write: Write) -> list[str]:
    return [value for held in write.values.values() for values in held.values() for value in values]


def _all_values(writes: Iterable[Write]) -> set[str]:
    return {value for write in writes for value in _values(write)}


class RenewedQueue:
    """``make``: a client by its name and the event that stops it. ``sending``: until then the topic is made anew and written to;
    ``calm``: from then on everything is accepted."""

    def __init__(
        self,
        make: Callable[[str, threading.Event], clients.Client],
        urls: list[str],
        sending: threading.Event,
        calm: threading.Event,
        failures: list[str],
    ) -> None:
        self._urls = urls
        self._make_client = make
        self._working = threading.Event()
        self._operator = make("renewed-operator", threading.Event())
        topic = {"name": TOPIC, "partition_count": PARTITIONS, "config": {"flush.ms": 50}}
        self._renewed, self._sent = RenewedHistory(), History()
        maker = make("topic-maker", sending)
        self._maker = TopicMaker(maker, topic, self._renewed, pace_seconds=6.0, rest_seconds=5.0, kafka=())
        self._make()
        sender = make("renewed-sender", sending)
        sender.history = self._sent
        self._histories = [QueueHistory() for _ in range(WORKERS)]
        self._writing = [
            clients.start(lambda _client: self._maker.run(), maker, failures=failures),
            clients.start(clients.produce, sender, {TOPIC: PARTITIONS}, 0.5, failures=failures),
        ]
        self._workers = [
            clients.start(
                work,
                make(f"renewed-worker-{number}", self._working),
                history,
                calm,
                QUEUE,
                TOPIC,
                LOCK_MS,
                failures=failures,
            )
            for number, history in enumerate(self._histories)
        ]

    def _make(self) -> None:
        self._maker.begin()
        letters = {"name": LETTERS, "partition_count": 1, "config": {"flush.ms": 50}}
        settings = {"topics": [TOPIC], "start": "earliest", "lock_ms": LOCK_MS, "max_deliveries": DELIVERIES_MAX}
        settings |= {"dead_letter_topic": LETTERS, "backoff_ms": [0, 200]}
        for method, path, body in (("POST", "/v1/topics", letters), ("PUT", f"/v1/queues/{QUEUE}", settings)):
            reply, _, _ = self._operator.insist(method, path, body)
            assert reply.status in {200, 201}, reply

    def settled(self) -> list[str]:
        """Send the last incarnation something in any case, wait until it is settled, and end the workers. Calm has to be."""
        for thread in self._writing:
            thread.join(SETTLE_SECONDS_MAX)
        enough = threading.Event()
        sender = self._make_client("renewed-last", enough)
        sender.history = self._sent
        threading.Timer(1.0, enough.set).start()
        clients.produce(sender, {TOPIC: PARTITIONS}, 0.2)
        deadline, rest = time.monotonic() + SETTLE_SECONDS_MAX, 0
        reply = clients.Reply(0, None)
        while time.monotonic() < deadline and rest < 3:
            reply = self._operator.call("GET", f"/v1/queues/{QUEUE}")
            is_done = reply.status == 200 and not any(part["lag"] for part in reply.body["partitions"])
            rest = rest + 1 if is_done else 0
            time.sleep(0.5)
        self._working.set()
        for thread in self._workers:
            thread.join(SETTLE_SECONDS_MAX)
        return [] if rest == 3 else [f"{QUEUE} was not settled in {SETTLE_SECONDS_MAX:.0f} s: {reply.body}"]

    def judged(self) -> list[str]:
        """While the gateways still serve."""
        log = by_http(self._urls[0], {TOPIC: PARTITIONS})
        places = {value: (line[1], offset) for line, held in log.items() for offset, value in enumerate(held)}
        letters: dict[str, list[Place]] = {}
        for letter in letters_of(self._urls[0], LETTERS):
            letters.setdefault(letter.value, []).append(letter.place)
        found = contradictions(self._whole(), self._sent.writes, self._renewed.lives, places, letters)
        return self._maker.failures + [f"{QUEUE}: {line}" for line in found]

    def counts(self) -> dict[str, int]:
        """How much of it there was."""
        found = {f"{QUEUE}: {name}": count for name, count in self._whole().counts().items()}
        return found | {"topics made anew": len(self._renewed.lives) - 1} | dict(sorted(self._maker.counts.items()))

    def _whole(self) -> QueueHistory:
        return QueueHistory(
            deliveries=[one for each in self._histories for one in each.deliveries],
            settlements=[one for each in self._histories for one in each.settlements],
            lost=[at for each in self._histories for at in each.lost],
        )
