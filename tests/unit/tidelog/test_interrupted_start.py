"""Ctrl-C while a client starts one of its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog import Consumer, Producer

START = threading.Thread.start


def interrupted_start(thread: threading.Thread) -> None:
    """``Thread.start``, into which an interrupt comes."""
    if thread.name.startswith("tidelog-"):
        raise KeyboardInterrupt
    START(thread)


def test_closing_hides_no_interrupt(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes out of the ``with`` block is the interrupt, and no complaint about a thread that never began."""
    gateway.fill("t", 10, 2)

    def read(**settings: Any) -> None:
        with Consumer("t", bootstrap_servers=gateway.url, **settings) as consumer:
            for _ in range(20):
                consumer.poll(5_000, 1)

    monkeypatch.setattr("threading.Thread.start", interrupted_start)
    acts: tuple[Callable[[], None], ...] = (read, lambda: read(group="g"))
    for act in acts:
        with pytest.raises(KeyboardInterrupt):
            act()


def test_what_was_taken_in_is_sent_all_the_same(gateway: FakeGateway) -> None:
    """The interrupt comes out of ``send``, whose record was taken in already: ``close`` delivers it."""
    gateway.create("t")

    def send() -> None:
        with Producer(gateway.url) as producer, pytest.MonkeyPatch.context() as patch:
            patch.setattr("threading.Thread.start", interrupted_start)
            producer.send("t", "a")

    with pytest.raises(KeyboardInterrupt):
        send()
    assert gateway.values("t") == [[b"a"]]
