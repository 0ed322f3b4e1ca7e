"""What the console's tests share: a browser, one gateway for a file, and pages that must stay without a trouble.

``browser``   Chromium, for all of these tests that a worker runs one after another
``visits``    opens pages; the test fails with what went wrong in any of them
``gateway``   a process on an empty directory; a file puts into it what its tests need
``console``   its pages
``tab``       its pages, in one tab for all tests of a file
``secured``   the same with ``auth=on``
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Visits, running_browser
from tests.support.console import Console, Tab
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.secured import Secured, secured_gateway
from tests.support.visitors import Visitors


@pytest.fixture(scope="package")
def browser() -> Iterator[Visitors]:
    """Closed behind the last of them: as long as Playwright is open, other tests of this worker could start no event loop."""
    with running_browser() as started:
        yield started


@pytest.fixture
def visits(browser: Visitors) -> Iterator[Visits]:
    """Pages without a trouble."""
    opened = Visits(browser)
    try:
        yield opened
    finally:
        opened.close()
    assert opened.troubles() == []


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """On an empty store."""
    directory = tmp_path_factory.mktemp("console")
    with running_gateway(directory / "store", directory / "log") as started:
        yield started


@pytest.fixture
def console(visits: Visits, gateway: GatewayProcess) -> Console:
    """Pages of this gateway."""
    return Console(visits, gateway.url)


@pytest.fixture(scope="module")
def lasting(browser: Visitors) -> Iterator[Visits]:
    """What stays open for all tests of a file."""
    opened = Visits(browser)
    yield opened
    opened.close()
    assert opened.troubles() == []


@pytest.fixture(scope="module")
def tab_of_all(lasting: Visits, gateway: GatewayProcess) -> Tab:
    """Of this gateway."""
    return Tab(lasting, gateway.url)


@pytest.fixture
def tab(tab_of_all: Tab) -> Iterator[Tab]:
    """That one, for this test."""
    with tab_of_all.lent() as lent:
        yield lent


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """On an empty store; callers need a token."""
    with secured_gateway(tmp_path_factory.mktemp("secured")) as (started, _):
        yield started
