"""The application that tests ask, and its gateway."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from tests.support.application import Client, gateway_with


@pytest.fixture
def gateway() -> Gateway:
    return gateway_with()


@pytest.fixture
def client(gateway: Gateway) -> Client:
    return Client(gateway)
