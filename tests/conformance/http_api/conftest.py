"""The HTTP API as a client sees it: at ``TIDELOG_TEST_URL`` if that is set, else at gateways of each kind, on empty directories.
``TIDELOG_TEST_TOKEN`` is the credential of its calls, if there is one.

Nothing here knows the code. Each test makes topics of its own, so that the suite can run against a gateway in use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.support.contract_gateways import KINDS, Caller
from tests.support.http_api import Api

GIVEN = os.environ.get("TIDELOG_TEST_URL")


@pytest.fixture(scope="session")
def _caller_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Caller]]:
    """The caller of a kind. Its gateways are started once: a worker goes from kind to kind with each file."""
    with ExitStack() as running:

        @cache
        def started(kind: str) -> Caller:
            return running.enter_context(KINDS[kind](tmp_path_factory.mktemp("http-api")))

        yield started


@pytest.fixture(scope="session", params=["given"] if GIVEN else list(KINDS))
def caller(request: pytest.FixtureRequest, _caller_at: Callable[[str], Caller]) -> Caller:
    """The gateway that the tests ask, and the credential of their calls."""
    return Caller(GIVEN, os.environ.get("TIDELOG_TEST_TOKEN")) if GIVEN else _caller_at(request.param)


@pytest.fixture(scope="session")
def api(caller: Caller) -> Iterator[Api]:
    """The API."""
    made = Api(*caller)
    yield made
    made.http.close()
