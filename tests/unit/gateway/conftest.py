"""An engine for tests below HTTP; the application that tests ask, and its gateway."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway as Application
from tests.support.application import Client, gateway_with
from tests.support.async_tests import AT_END
from tests.support.engine import Gateway, make_gateway


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Gateway:
    """On a store in memory; drained at the end of the test."""
    made = make_gateway()
    request.node.stash[AT_END] = made.engine.drain
    return made


@pytest.fixture
def application() -> Application:
    return gateway_with()


@pytest.fixture
def client(application: Application) -> Client:
    return Client(application)
