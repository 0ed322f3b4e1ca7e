"""The console with much in the log: its pages stay small and quick."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect

from tests.support.console import PAINT_MS_MAX, Console, first_paint
from tests.support.gateway_process import GatewayProcess

PARTITIONS = 10_000
GROUPS = 250


@pytest.fixture(scope="module", autouse=True)
def data(gateway: GatewayProcess) -> None:
    """A group with ten thousand partitions, and a few hundred others."""
    gateway.topic("wide", PARTITIONS)
    gateway.produce("wide", "v", partition=7)
    offsets = [{"topic": "wide", "partition": partition, "offset": 0} for partition in range(PARTITIONS)]
    assert gateway.http.put("/v1/groups/wide/offsets", json={"offsets": offsets}).status_code == 200
    body = {"offsets": [{"topic": "wide", "partition": 0, "offset": 0}]}

    def put(number: int) -> int:
        return gateway.http.put(f"/v1/groups/g-{number:03}/offsets", json=body).status_code

    with ThreadPoolExecutor(16) as at_once:  # their commits are shared
        assert set(at_once.map(put, range(GROUPS))) == {200}


def test_many_groups_come_in_parts(console: Console) -> None:
    """A hundred at a time, the furthest behind of all of them first; the search looks at all, and so does a sort."""
    page = console.open("/groups")
    expect(page.get_by_role("rowheader").first).to_have_text("wide")
    expect(page.get_by_role("rowheader")).to_have_count(100)
    expect(page.get_by_text(f"{GROUPS + 1} groups")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("rowheader", name="g-100")).to_be_visible()
    page.get_by_role("button", name="Group").click()
    expect(page.get_by_role("rowheader").first).to_have_text("g-000")
    page.get_by_role("button", name="Group").click()
    expect(page.get_by_role("rowheader").first).to_have_text("wide")
    page.get_by_label("Search").fill("G-24")
    expect(page.get_by_role("rowheader")).to_have_count(10)


def test_a_group_of_ten_thousand_partitions(console: Console) -> None:
    """The page has a hundred rows, the plot four lines; a reset of all of them is previewed in parts."""
    page = console.open("/groups/wide")
    expect(page.locator(".figures")).to_contain_text("1")
    expect(page.get_by_role("region", name="Lag by partition").get_by_role("rowheader")).to_have_count(100)
    expect(page.get_by_text("10,000 partitions")).to_be_visible()
    expect(page.get_by_role("figure")).to_contain_text("wide/7 1")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("To", exact=True).select_option("latest")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("dialog")).to_contain_text("This changes 1 partition:", timeout=20_000)


@pytest.mark.parametrize("route", ["/", "/topics", "/topics/wide", "/groups", "/groups/wide"])
def test_the_first_paint_does_not_wait(console: Console, route: str) -> None:
    """The shell is painted soon, and before any data is there."""
    page, paint_ms = first_paint(console, route)
    slowest_ms = page.evaluate(
        "Math.max(...performance.getEntriesByType('resource').filter(e => e.name.includes('/v1/')).map(e => e.responseEnd))"
    )
    assert paint_ms < min(PAINT_MS_MAX, slowest_ms)
    assert len(page.content()) < 400_000
