"""A gateway whose registry the tests of this folder ask, each with subjects of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.support.gateway_process import running_gateway
from tests.support.registry import Registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """The registry of a gateway on a directory."""
    folder = tmp_path_factory.mktemp("registry")
    with running_gateway(folder / "store", folder / "log") as gateway:
        made = Registry(f"{gateway.url}/registry")
        yield made
        made.close()


@pytest.fixture
def name() -> str:
    """A subject that no other test uses."""
    return f"s{secrets.token_hex(6)}"
