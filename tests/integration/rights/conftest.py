"""One gateway for all rows of the matrix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.rights.world import LiveGateway, World, live_gateway


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("rights")) as running:
        yield running


@pytest.fixture
def world(live: LiveGateway) -> Iterator[World]:
    made = World(live)
    yield made
    made.close()
