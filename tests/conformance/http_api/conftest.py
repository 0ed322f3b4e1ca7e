"""The HTTP API as a client sees it: at ``TIDELOG_TEST_URL`` if that is set, else a gateway started on an empty directory.

Nothing here knows the code. Each test makes topics of its own, so that the suite can run against a gateway in use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import running_gateway
from tests.support.http_api import Api


@pytest.fixture(scope="session")
def gateway_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the gateway is."""
    given = os.environ.get("TIDELOG_TEST_URL")
    if given:
        yield given
        return
    directory: Path = tmp_path_factory.mktemp("http-api")
    with running_gateway(directory / "store", directory / "log") as gateway:
        yield gateway.url


@pytest.fixture(scope="session")
def api(gateway_url: str) -> Iterator[Api]:
    """The API."""
    made = Api(gateway_url)
    yield made
    made.http.close()
