"""The console while the store or the gateway does not answer: it says so, keeps what it showed, and goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.browser import Visits
from tests.support.console import Console
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.minio import Minio

ROUTES = ["/topics", "/groups", "/groups/billing", "/queues", "/transactions"]


@pytest.fixture(scope="module")
def own_minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """A server of this file's own, to be stopped and started."""
    server = Minio(tmp_path_factory.mktemp("minio"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def gateway(own_minio: Minio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """On a store that goes down."""
    uri = f"s3://{own_minio.create_bucket()}/log"
    log = tmp_path_factory.mktemp("gateway") / "log"
    with running_gateway(uri, log, environment=own_minio.environment()) as started:
        started.topic("orders")
        offsets = [{"topic": "orders", "partition": 0, "offset": 0}]
        started.http.put("/v1/groups/billing/offsets", json={"offsets": offsets})
        yield started


@pytest.mark.minio
def test_pages_say_that_the_store_is_down_and_recover(
    visits: Visits, own_minio: Minio, gateway: GatewayProcess
) -> None:
    """Pages that are open keep their data and say what is wrong; new ones say it, too; both show data once it is back."""
    visits.expect(503)
    console = Console(visits, gateway.url)
    opened = [console.open(route) for route in ("/groups", "/groups/billing")]
    own_minio.stop()
    try:
        pages = []
        for route in ROUTES:
            page = visits.page(gateway.url)
            page.goto(f"{gateway.url}/#{route}")
            pages.append(page)
        for page in [*pages, *opened]:
            expect(page.get_by_role("alert").first).to_contain_text("The store", timeout=20_000)
            expect(page.get_by_role("alert").first).to_contain_text("Try again in a moment.")
        for page in opened:
            expect(page.get_by_text("billing").first).to_be_visible()
        page = opened[0]
        page.goto(f"{gateway.url}/#/queues")
        page.get_by_role("button", name="Create queue").click()
        page.get_by_label("Name", exact=True).fill("q")
        page.get_by_label("Topics").fill("orders")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.locator("dialog").get_by_role("alert")).to_contain_text("The store", timeout=20_000)
    finally:
        own_minio.start()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator(".toasts")).to_contain_text("Queue q is created.", timeout=20_000)
    for page in [*pages, opened[1]]:
        expect(page.get_by_role("alert")).to_have_count(0, timeout=20_000)


def test_a_gateway_that_is_gone(visits: Visits, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page keeps what it showed and says that nothing answers; when the gateway is back, it goes on."""
    visits.expect("net::ERR_", 503)
    directory = tmp_path_factory.mktemp("gone")
    with running_gateway(directory / "store", directory / "log") as alone:
        alone.topic("orders")
        offsets = [{"topic": "orders", "partition": 0, "offset": 0}]
        alone.http.put("/v1/groups/billing/offsets", json={"offsets": offsets})
        page = Console(visits, alone.url).open("/groups/billing")
        alone.kill()
        expect(page.get_by_role("alert")).to_contain_text("The gateway does not answer.")
        expect(page.get_by_role("rowheader", name="orders/0")).to_be_visible()
        alone.start()
        expect(page.get_by_role("alert")).to_have_count(0)
