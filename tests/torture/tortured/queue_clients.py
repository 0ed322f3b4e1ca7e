"""Senders of plain and delayed records, and workers of a queue: threads on plain HTTP, by the contract alone."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.torture.tortured.clients import Client, Reply
from tests.torture.tortured.queue_history import Delivery, QueueHistory, Sent, Settlement

TOPIC = "jobs"
PARTITIONS = 4
LETTERS = "dead-jobs"
QUEUE = "work"
DELIVERIES_MAX = 4
LOCK_MS = 4_000
DELAY_MS_MAX = 8_000
_BATCH = 10


def outcome_of(reply: Reply) -> str:
    """``yes``, ``no`` or ``unknown``."""
    if 200 <= reply.status < 300:
        return "yes"
    return "unknown" if reply.in_doubt else "no"


def send(client: Client, history: QueueHistory, pace_seconds: float) -> None:
    """Numbered requests, each repeated until it is known; half of their records are delayed, and some of those cancelled."""
    identity: dict[str, str] = {}
    sequence = number = 0
    while not client.stopping.is_set():
        if not identity:
            reply, _, _ = client.insist("POST", "/v1/producers", {})
            if reply.status != 201:
                continue
            identity = {"Tidelog-Producer-Id": reply.body["producer_id"], "Tidelog-Producer-Epoch": "0"}
            sequence = 0
        sent, records = list[Sent](), list[dict[str, Any]]()
        for _ in range(client.rng.randrange(1, _BATCH)):
            one = Sent(value=f"{client.name}.{number}", outcome="unknown")
            record: dict[str, Any] = {"partition": client.rng.randrange(PARTITIONS), "value": one.value}
            if client.rng.random() < 0.5:
                one.due_ms = record["deliver_at"] = time.time_ns() // 1_000_000 + client.rng.randrange(DELAY_MS_MAX)
            number += 1
            sent.append(one)
            records.append(record)
        headers = {**identity, "Tidelog-Producer-Sequence": str(sequence)}
        reply, _, doubt = client.insist("POST", f"/v1/topics/{TOPIC}/records", {"records": records}, headers)
        outcome = "yes" if reply.status == 200 else "unknown" if doubt else "no"
        for one in sent:
            one.outcome = outcome
        if outcome == "yes":
            sequence += 1
            for place in reply.body.get("scheduled", ()):
                if client.rng.random() < 0.2:
                    _cancel(client, sent[place["index"]], place["id"])
        else:
            identity = {}
        history.sent += sent
        client.stopping.wait(client.rng.uniform(0, 2 * pace_seconds))


def _cancel(client: Client, sent: Sent, scheduled_id: str) -> None:
    client.stopping.wait(client.rng.uniform(0, DELAY_MS_MAX / 4_000))
    reply = client.call("DELETE", f"/v1/topics/{TOPIC}/scheduled/{scheduled_id}")
    if reply.status == 204:
        sent.cancelled = "yes"
    elif reply.code in {"ALREADY_DELIVERED", "UNKNOWN_SCHEDULED"} or not reply.in_doubt:
        sent.cancelled = "no"
    else:
        sent.cancelled = "unknown"


def work(
    client: Client,
    history: QueueHistory,
    calm: threading.Event,
    queue: str = QUEUE,
    topic: str = TOPIC,
    lock_ms: int = LOCK_MS,
) -> None:
    """Receive and settle. Once ``calm``, accept everything. ``topic``: the queue's only one."""
    while not client.stopping.is_set():
        asked = time.monotonic()
        body = {"max_records": client.rng.randrange(1, 2 * _BATCH), "max_wait_ms": 500}
        reply = client.call("POST", f"/v1/queues/{queue}:receive", body)
        got = time.monotonic()
        if reply.status != 200:
            history.lost += [got] if reply.in_doubt else []
            client.stopping.wait(0.1)
            continue
        deliveries = [
            Delivery(
                value=record["value"],
                place=(record["partition"], record["offset"]),
                count=record["delivery_count"],
                lease=record["lease"],
                lock_s=lock_ms / 1000,
                asked=asked,
                got=got,
            )
            for record in reply.body["records"]
        ]
        history.deliveries += deliveries
        if calm.is_set():
            _settle(client, history, deliveries, ["accept"] * len(deliveries), queue, topic)
        elif client.rng.random() < 0.9:  # else its locks end
            client.stopping.wait(client.rng.choice((0, 0, 0.2, 1.0, 1.5 * lock_ms / 1000)))
            choices = ("accept",) * 8 + ("release", "reject")
            _settle(client, history, deliveries, [client.rng.choice(choices) for _ in deliveries], queue, topic)


def _settle(
    client: Client, history: QueueHistory, deliveries: list[Delivery], actions: list[str], queue: str, topic: str
) -> None:
    if not deliveries:
        return
    wanted = [
        {
            "topic": topic,
            "partition": one.place[0],
            "offset": one.place[1],
            "lease": one.lease,
            "action": action,
        }
        for one, action in zip(deliveries, actions, strict=True)
    ]
    for _ in range(3):
        sent = time.monotonic()
        reply = client.call("POST", f"/v1/queues/{queue}:settle", {"settlements": wanted})
        answered = time.monotonic()
        outcomes = [outcome_of(reply)] * len(wanted)
        if reply.status == 200:
            outcomes = ["yes" if one["settled"] else "no" for one in reply.body["results"]]
        history.settlements += [
            Settlement(value=one.value, lease=one.lease, action=action, outcome=outcome, sent=sent, answered=answered)
            for one, action, outcome in zip(deliveries, actions, outcomes, strict=True)
        ]
        if reply.status == 200 or not reply.again:
            return
        client.stopping.wait(0.2)
