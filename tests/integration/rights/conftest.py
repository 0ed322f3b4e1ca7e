"""A gateway for many rows of the matrix: each row looks at all objects of the store, so after some rows it is a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.rights.world import LiveGateway, World, live_gateway

ROWS = 40
"""That share a gateway: they leave a thousand objects."""


@pytest.fixture(scope="package")
def next_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], LiveGateway]]:
    """The gateway of the next row."""
    with ExitStack() as running:
        gateway: LiveGateway | None = None
        rows = 0

        def take() -> LiveGateway:
            nonlocal gateway, rows
            if gateway is None or rows == ROWS:
                running.close()
                gateway, rows = running.enter_context(live_gateway(tmp_path_factory.mktemp("rights"))), 0
            rows += 1
            return gateway

        yield take


@pytest.fixture
def live(next_gateway: Callable[[], LiveGateway]) -> LiveGateway:
    return next_gateway()


@pytest.fixture
def world(live: LiveGateway) -> Iterator[World]:
    made = World(live)
    yield made
    made.close()
