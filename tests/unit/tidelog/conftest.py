"""Fixtures of tests of the SDK: ``gateway`` runs in this process, on a free port of 127.0.0.1; clients leave no threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import until

THREADS_END_SECONDS_MAX = 20
"""On a busy machine; what hangs in a question to a gateway that never answers takes as long as that may."""


@pytest.fixture
def client_threads() -> Callable[[], list[str]]:
    """Names of the threads of clients; threads that another test of this process left to their time-outs don't count."""
    earlier = set(threading.enumerate())
    return lambda: [
        thread.name for thread in threading.enumerate() if thread.name.startswith("tidelog") and thread not in earlier
    ]


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    """One gateway, empty."""
    fake = FakeGateway()
    try:
        yield fake
    finally:
        fake.stop()


@pytest.fixture
def two_gateways(gateway: FakeGateway) -> Iterator[tuple[FakeGateway, FakeGateway]]:
    """``gateway`` (id ``one``) and another of its store (id ``two``)."""
    other = FakeGateway()
    other.id, other.topics, other.groups, other.changed = "two", gateway.topics, gateway.groups, gateway.changed
    gateway.peers, other.peers = [other], [gateway]
    try:
        yield gateway, other
    finally:
        other.stop()


@pytest.fixture
def dead_url() -> str:
    """An address of this machine where no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _no_thread_is_left(client_threads: Callable[[], list[str]]) -> Iterator[None]:
    """Every client ends the threads that it began, whatever its gateway does; those cut off in a question are awaited."""
    yield
    until(lambda: not client_threads(), THREADS_END_SECONDS_MAX, every=0.005, what="a thread is left")
