"""Fixtures of tests of bad input and faults: ``start_gateway`` and ``send`` end with the test what they started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.senders import Senders


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One for a module's tests, on a directory. It caches nothing, and cuts a client off that does not read for 2 s."""
    directory = tmp_path_factory.mktemp("faults")
    settings = ("--tail-cache-bytes-max", "0", "--footer-cache-bytes-max", "0", "--write-stall-ms", "2000")
    with running_gateway(directory / "outside" / "store", directory / "log", *settings) as started:
        yield started


@pytest.fixture
def send() -> Iterator[Callable[..., Senders]]:
    """Start producers: ``send([url, …], topic, partition_count, count)``."""
    started: list[Senders] = []

    def start(urls: Sequence[str], topic: str, partition_count: int, count: int, **more: Any) -> Senders:
        started.append(Senders(urls, topic, partition_count, count, **more))
        started[-1].start()
        return started[-1]

    yield start
    for senders in started:
        senders.stop()
