"""An engine for tests below HTTP."""

from __future__ import annotations

import pytest

from tests.support.async_tests import AT_END
from tests.support.engine import Gateway, make_gateway


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Gateway:
    """On a store in memory; drained at the end of the test."""
    made = make_gateway()
    request.node.stash[AT_END] = made.engine.drain
    return made
