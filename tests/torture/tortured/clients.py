"""Producers, readers and transactional loops on plain HTTP, each a thread: what they see goes into the history.

Written against the HTTP contract alone, so that a mistake of the SDK can't hide one of the gateway.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import urllib3

from tests.torture.tortured.history import History, Place, Read, Write, key_of

TIMEOUT_SECONDS = 15.0
STREAM_SILENCE_SECONDS = 5.0
GIVE_UP_SECONDS = 120.0
"""A producer that may repeat does so for this long before it says that it does not know."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A status and a decoded body. Status 0: no answer; ``sent`` says whether the request can have arrived."""

    status: int
    body: Any
    sent: bool = True

    @property
    def code(self) -> str:
        """The problem's code."""
        return str(self.body.get("error_code", "")) if isinstance(self.body, dict) else "NO_ANSWER"

    @property
    def in_doubt(self) -> bool:
        """It may have happened."""
        return self.sent if self.status == 0 else self.status >= 400 and bool(self.body["may_have_happened"])

    @property
    def again(self) -> bool:
        """Trying again may help."""
        return self.status == 0 or (self.status >= 400 and bool(self.body["retryable"]))

    def is_forgotten(self, headers: dict[str, str]) -> bool:
        """Whether the topic expects an earlier sequence than the sender's, which waits for answers: it was made anew since."""
        if self.code != "SEQUENCE_OUT_OF_ORDER" or "expected_sequence" not in self.body:
            return False
        return int(self.body["expected_sequence"]) < int(headers["Tidelog-Producer-Sequence"])


class Client:
    """One thread's way to the gateways: any of them, another at each try."""

    def __init__(
        self, name: str, urls: list[str], history: History, stopping: threading.Event, seed: int, token: str = ""
    ) -> None:
        """``token``: sent with each request."""
        self.name = name
        self.history = history
        self.stopping = stopping
        self.rng = random.Random(f"{seed}-{name}")
        self._urls = urls
        self._next_value = 0
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(TIMEOUT_SECONDS))

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """One request to any gateway."""
        try:
            answer = self._http.request(
                method,
                self.rng.choice(self._urls) + path,
                body=None if body is None else msgspec.json.encode(body),
                headers={**self._headers, **(headers or {})},
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError):
            return Reply(0, None, sent=False)
        except urllib3.exceptions.HTTPError:
            return Reply(0, None)
        try:
            return Reply(answer.status, msgspec.json.decode(answer.data) if answer.data else None)
        except msgspec.DecodeError:
            return Reply(0, None)  # cut off in the middle

    @contextmanager
    def stream(self, path: str, headers: dict[str, str]) -> Iterator[tuple[Reply, Iterator[bytes]]]:
        """An answer of any gateway as it comes: its lines until it ends, breaks off or is silent for a while. The reply of an
        error has its body."""
        timeout = urllib3.Timeout(connect=TIMEOUT_SECONDS, read=STREAM_SILENCE_SECONDS)
        url, headers = self.rng.choice(self._urls) + path, self._headers | headers
        answer, reply = None, Reply(0, None)
        try:
            answer = self._http.request("GET", url, headers=headers, timeout=timeout, preload_content=False)
            reply = Reply(answer.status, None if answer.status == 200 else msgspec.json.decode(answer.data))
        except (urllib3.exceptions.HTTPError, msgspec.DecodeError):
            pass
        try:
            yield reply, iter(()) if answer is None or reply.status != 200 else _lines(answer)
        finally:
            if answer is not None:
                answer.close()

    def insist(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[Reply, int, bool]:
        """Repeat a request that is safe to repeat until it is known: the last reply, how many tries, and any doubt left."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        attempts, doubt = 0, False
        while True:
            attempts += 1
            reply = self.call(method, path, body, headers)
            if 0 < reply.status < 300:
                return reply, attempts, False
            doubt |= reply.in_doubt
            if not (reply.again or reply.in_doubt) or time.monotonic() > deadline or reply.is_forgotten(headers or {}):
                return reply, attempts, doubt
            time.sleep(self.rng.uniform(0.05, 0.5))

    def values(self, topics: dict[str, int], records: int) -> dict[str, dict[int, list[str]]]:
        """New values for some partitions of some topics."""
        made: dict[str, dict[int, list[str]]] = {}
        for _ in range(self.rng.randrange(1, records + 1)):
            topic = self.rng.choice(list(topics))
            by_partition = made.setdefault(topic, {})
            by_partition.setdefault(self.rng.randrange(topics[topic]), []).append(f"{self.name}.{self._next_value}")
            self._next_value += 1
        return {topic: dict(sorted(by_partition.items())) for topic, by_partition in made.items()}


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    try:
        yield from answer
    except (urllib3.exceptions.HTTPError, OSError):
        return


def produce(client: Client, topics: dict[str, int], pace_seconds: float) -> None:
    """An idempotent producer: numbers its requests to one topic, repeats each until it knows."""
    topic = client.rng.choice(list(topics))
    identity: dict[str, str] = {}
    sequence = 0
    while not client.stopping.is_set():
        if not identity:
            reply, _, _ = client.insist("POST", "/v1/producers", {})
            if reply.status != 201:
                continue
            identity = {
                "Tidelog-Producer-Id": reply.body["producer_id"],
                "Tidelog-Producer-Epoch": str(reply.body["epoch"]),
            }
            sequence = 0
        values = client.values({topic: topics[topic]}, 20)
        started = time.monotonic()
        reply, attempts, doubt = client.insist(
            "POST",
            f"/v1/topics/{topic}/records",
            {"records": _records(values[topic])},
            {**identity, "Tidelog-Producer-Sequence": str(sequence)},
        )
        done = reply.status == 200
        client.history.add(
            Write(
                client=client.name,
                kind="idempotent request",
                values=values,
                outcome="acknowledged" if done else "unknown" if doubt else "refused",
                started=started,
                ended=time.monotonic(),
                places=_places(values, [{"topic": topic, **reply.body}]) if done else [],
                attempts=attempts,
                duplicate=done and reply.body["duplicate"],
                why=reply.code,
            )
        )
        if done:
            sequence += 1
        else:
            identity = {}
        client.stopping.wait(client.rng.uniform(0, 2 * pace_seconds))


def transact(client: Client, topics: dict[str, int], pace_seconds: float) -> None:
    """Transactions over all topics; some are aborted on purpose."""
    while not client.stopping.is_set():
        values, started = client.values(topics, 12), time.monotonic()
        outcome, reply, attempts = _transaction(client, values, client.rng.choice(("commit", "commit", "abort")))
        done = outcome == "acknowledged"
        client.history.add(
            Write(
                client=client.name,
                kind="transaction",
                values=values,
                outcome=outcome,
                started=started,
                ended=time.monotonic(),
                places=_places(values, reply.body["topics"]) if done else [],
                attempts=attempts,
                atomic=True,
                why=reply.code,
            )
        )
        client.stopping.wait(client.rng.uniform(0, 2 * pace_seconds))


def produce_at_once(client: Client, topics: dict[str, int], pace_seconds: float) -> None:
    """Records of several topics in one request without a number: it is never repeated."""
    while not client.stopping.is_set():
        values = client.values(topics, 4)
        body = {"topics": [{"topic": topic, "records": _records(held)} for topic, held in values.items()]}
        started = time.monotonic()
        reply = client.call("POST", "/v1/records", body)
        done = reply.status == 200
        client.history.add(
            Write(
                client=client.name,
                kind="request of several topics",
                values=values,
                outcome="acknowledged" if done else "unknown" if reply.in_doubt else "refused",
                started=started,
                ended=time.monotonic(),
                places=_places(values, reply.body["topics"]) if done else [],
                atomic=True,
                why=reply.code,
            )
        )
        client.stopping.wait(client.rng.uniform(0, 2 * pace_seconds))


def _transaction(client: Client, values: dict[str, dict[int, list[str]]], action: str) -> tuple[str, Reply, int]:
    begun, attempts, _ = client.insist(
        "POST", "/v1/transactions", {"transactional_id": client.name, "timeout_ms": client.rng.choice((20_000, 60_000))}
    )
    if begun.status != 201:
        return "refused", begun, attempts
    transaction = begun.body["transaction_id"]
    headers = {
        "Tidelog-Transaction": transaction,
        "Tidelog-Producer-Id": begun.body["producer_id"],
        "Tidelog-Producer-Epoch": str(begun.body["epoch"]),
    }
    for topic, held in values.items():
        for sequence, record in enumerate(_records(held)):
            numbered = {**headers, "Tidelog-Producer-Sequence": str(sequence)}
            reply, more, _ = client.insist("POST", f"/v1/topics/{topic}/records", {"records": [record]}, numbered)
            attempts += more - 1
            if reply.status != 202:
                # Not all of it is staged: it must never be committed.
                client.insist("POST", f"/v1/transactions/{transaction}:abort")
                return "aborted", reply, attempts
    if action == "abort":
        reply, more, doubt = client.insist("POST", f"/v1/transactions/{transaction}:abort")
        return "aborted" if reply.status == 200 or not doubt else "unknown", reply, attempts + more - 1
    reply, more, doubt = client.insist("POST", f"/v1/transactions/{transaction}:commit")
    done = reply.status == 200 and reply.body["state"] == "committed"
    return "acknowledged" if done else "unknown" if doubt else "aborted", reply, attempts + more - 1


def read(client: Client, topics: dict[str, int]) -> None:
    """Polls all partitions from offset 0 on, until stopped and at the end."""
    positions = {(topic, partition): 0 for topic, count in topics.items() for partition in range(count)}
    while not client.stopping.is_set():
        for (topic, partition), offset in positions.items():
            polled = _poll(client, client.name, (topic, partition), offset, wait_ms=client.rng.choice((0, 0, 100, 500)))
            positions[topic, partition] = offset if polled is None else polled.next_offset
        client.stopping.wait(0.05)


def read_again(client: Client, topics: dict[str, int], pause_seconds: float) -> None:
    """Reads everything from offset 0 on as a new consumer, over and over: old segments, while they are replaced."""
    passes = 0
    while not client.stopping.wait(pause_seconds):
        passes += 1
        for line in [(topic, partition) for topic, count in topics.items() for partition in range(count)]:
            offset, is_behind = 0, True
            while is_behind and not client.stopping.is_set():
                polled = _poll(client, f"{client.name}, pass {passes}", line, offset, wait_ms=0)
                if polled is not None:
                    offset, is_behind = polled.next_offset, polled.next_offset < polled.high_watermark


def _poll(client: Client, reader: str, line: tuple[str, int], offset: int, *, wait_ms: int) -> Read | None:
    """One poll, in the history under the reader's name; None when it was refused."""
    topic, partition = line
    started = time.monotonic()
    reply = client.call(
        "GET", f"/v1/topics/{topic}/partitions/{partition}/records?offset={offset}&max_wait_ms={wait_ms}"
    )
    if reply.status != 200:
        if reply.status and not reply.again:
            client.history.fault(f"a poll was refused: {reply.code}")
        time.sleep(0.05)
        return None
    body = reply.body
    polled = Read(
        client=reader,
        topic=topic,
        partition=partition,
        offset=offset,
        values=[record["value"] for record in body["records"]],
        offsets=[record["offset"] for record in body["records"]],
        next_offset=body["next_offset"],
        high_watermark=body["high_watermark"],
        started=started,
        ended=time.monotonic(),
    )
    client.history.add(polled)
    return polled


def start(body: Callable[..., None], client: Client, *arguments: object, failures: list[str]) -> threading.Thread:
    """A thread for one client; what it raises is a failure of the run."""

    def live() -> None:
        try:
            body(client, *arguments)
        except Exception:  # noqa: BLE001 - it is reported, and fails the run
            failures.append(f"{client.name}: {traceback.format_exc()}")

    thread = threading.Thread(target=live, name=client.name, daemon=True)
    thread.start()
    return thread


def _records(by_partition: dict[int, list[str]]) -> list[dict[str, Any]]:
    return [
        {"partition": p, "key": key_of(value), "value": value} for p, values in by_partition.items() for value in values
    ]


def _places(values: dict[str, dict[int, list[str]]], topics: list[Any]) -> list[Place]:
    return [
        Place(
            topic=told["topic"],
            partition=place["partition"],
            base_offset=place["base_offset"],
            values=values[told["topic"]][place["partition"]],
        )
        for told in topics
        for place in told["partitions"]
    ]
