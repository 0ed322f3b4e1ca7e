"""Records sent through gateways that are disturbed, shared by ``line.py`` and ``infra/cluster``."""
# ruff: noqa: INP001 - part of programs of their own

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final

from tidelog import Admin, Consumer, Producer, TidelogError
from tidelog.errors import DeliveryFailed

RECORDS: Final = 100
FILL: Final = "held = []\nwhile True: held.append(bytes(range(256)) * 4096 * 8)"
"""Program that allocates memory until the kernel kills the process that it was told to kill first."""


def send_and_read(url: str, topic: str, **connection: Any) -> int:
    """Create a topic, send records to it and read them back; return their number."""
    with Admin(url, **connection) as admin, Producer(url, linger_ms=0, **connection) as producer:
        admin.create_topic(topic, 2)
        for number in range(RECORDS):
            producer.send(topic, str(number)).result()
    with Consumer(topic, bootstrap_servers=url, auto_offset_reset="earliest", **connection) as consumer:
        seen: list[Any] = []
        while len(seen) < RECORDS:
            seen += consumer.poll(timeout_ms=10_000)
    return len(seen)


def send_until(
    ended: threading.Event,
    url: str,
    topic: str,
    on_sent: Callable[[str, float, TidelogError | None], None],
    *,
    sender: int = 0,
    pause_seconds: float = 0.0,
    **connection: Any,
) -> None:
    """Send one record after another, each when the one before is acknowledged or has failed.

    Args:
        ended: set when no more records are to be sent.
        url: address of the gateways.
        topic: gets the records. Their value is a JSON array of their name and of the time at which they are sent, in seconds.
        on_sent: called with the name of each record, the seconds until its acknowledgement or failure, and the failure.
        sender: prefix of the names, so that several senders can run at once.
        pause_seconds: time between a record's end and the next record.
        connection: options of the producer.
    """
    # Closing raises failures once more that ``on_sent`` was told.
    with suppress(DeliveryFailed), Producer(url, linger_ms=0, **connection) as producer:
        for number in count():
            if ended.is_set():
                return
            name, began, failure = f"{sender}-{number}", time.time(), None
            try:
                producer.send(topic, json.dumps([name, began]), key=name).result()
            except TidelogError as problem:
                failure = problem
            on_sent(name, time.time() - began, failure)
            ended.wait(pause_seconds)


def maintenance_rounds(logs: str) -> list[dict[str, Any]]:
    """Return the rounds that maintenance reports in its logs."""
    events = [json.loads(line) for line in logs.splitlines() if line.startswith("{") and line.endswith("}")]
    return [event for event in events if event.get("event") == "round"]
