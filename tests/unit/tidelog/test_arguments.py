"""Calls as Kafka's clients have them are refused at once, by a ``TypeError`` that says how it is written here."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tidelog
import tidelog.aio
from tidelog import TopicPartition

SETTINGS = {"bootstrap.servers": "127.0.0.1:9092"}
PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize("client", [tidelog, tidelog.aio], ids=["plain", "asyncio"])
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.Producer(SETTINGS), "bootstrap_servers is an address, not a mapping"),
        (lambda client: client.Consumer(SETTINGS), "bootstrap_servers is an address, not a mapping"),
        (lambda client: client.Admin(SETTINGS), "bootstrap_servers is an address, not a mapping"),
        (lambda client: client.Producer([("127.0.0.1", 9092)]), "an address, or a list of them"),
        (lambda client: client.Consumer(["t"]), r"write Consumer\(\*topics\) for a list"),
        (lambda client: client.Consumer(b"t"), "each is text"),
    ],
)
def test_how_other_clients_are_made(client: Any, call: Callable[[Any], object], said: str) -> None:
    """Nothing is connected, no time passes."""
    with pytest.raises(TypeError, match=said):
        call(client)


CALLS: list[tuple[str, tuple[Any, ...], str]] = [
    ("seek_to_beginning", ([PLACE],), r"seek_to_beginning\(\*partitions\)"),
    ("seek_to_end", ([PLACE],), r"seek_to_end\(\*partitions\)"),
    ("pause", ([PLACE],), r"pause\(\*partitions\)"),
    ("resume", ([PLACE],), r"resume\(\*partitions\)"),
    ("committed", ([PLACE],), r"committed\(\*partitions\)"),
    ("seek_to_committed", ([PLACE],), r"seek_to_committed\(\*partitions\)"),
    ("assign", ([("t", 0)],), r"assign\(\[TopicPartition\(topic, 0\)\]\)"),
    ("seek", (("t", 0), 1), r"seek\(TopicPartition\(topic, 0\), 0\)"),
]


@pytest.mark.parametrize(("name", "arguments", "said"), CALLS, ids=[name for name, _, _ in CALLS])
def test_how_other_clients_name_partitions(dead_url: str, name: str, arguments: tuple[Any, ...], said: str) -> None:
    """No gateway is asked for it."""
    with tidelog.Consumer(bootstrap_servers=dead_url) as consumer, pytest.raises(TypeError, match=said):
        getattr(consumer, name)(*arguments)

    async def awaited() -> None:
        async with tidelog.aio.Consumer(bootstrap_servers=dead_url) as consumer:
            await getattr(consumer, name)(*arguments)

    with pytest.raises(TypeError, match=said):
        asyncio.run(awaited())


def test_what_needs_pyarrow_names_the_extra(dead_url: str) -> None:
    """At once, and not when a table came at last."""
    program = f"""
import sys
sys.modules["pyarrow"] = None
from tidelog import Consumer, Producer
with Consumer("t", bootstrap_servers={dead_url!r}) as consumer, Producer({dead_url!r}) as producer:
    for call in (consumer.poll_arrow, lambda: producer.send_table("t", object())):
        try:
            call()
        except ModuleNotFoundError as error:
            assert "pip install 'tidelog[arrow]'" in str(error), error
        else:
            raise AssertionError
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=30)
