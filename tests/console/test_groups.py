"""The console's pages of groups: what they show, and that a reset and a deletion do what was asked, and nothing before it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.support.console import Console, Tab, done, row
from tests.support.gateway_process import GatewayProcess


@pytest.fixture(scope="module", autouse=True)
def topic(gateway: GatewayProcess) -> str:
    """Three partitions with ten records each, a second apart."""
    gateway.topic("orders", 3, retention_ms=-1)
    for partition in range(3):
        records = [{"value": str(number), "timestamp": 1_700_000_000_000 + 1000 * number} for number in range(10)]
        gateway.http.post(f"/v1/topics/orders/partitions/{partition}/records", json={"records": records})
    return "orders"


def commit(gateway: GatewayProcess, group: str, *offsets: int) -> None:
    body = [{"topic": "orders", "partition": partition, "offset": offset} for partition, offset in enumerate(offsets)]
    assert gateway.http.put(f"/v1/groups/{group}/offsets", json={"offsets": body}).status_code == 200


def committed(gateway: GatewayProcess, group: str) -> dict[int, int]:
    answer = gateway.http.get(f"/v1/groups/{group}/offsets").json()
    return {one["partition"]: one["offset"] for one in answer["offsets"]}


def join(gateway: GatewayProcess, group: str) -> dict[str, Any]:
    body = {"topics": ["orders"], "client_id": "worker-1", "instance_id": "one"}
    answer = gateway.http.post(f"/v1/groups/{group}/members", json=body)
    assert answer.status_code == 201
    joined: dict[str, Any] = answer.json()
    return joined


def test_groups_are_listed_by_their_lag(tab: Tab, gateway: GatewayProcess) -> None:
    """The furthest behind first, with time behind, skew and topics; a search narrows the list, and stays in the address."""
    commit(gateway, "behind", 4, 10, 10)
    commit(gateway, "behind-most", 0, 9, 10)
    join(gateway, "joined")
    page = tab.open("/groups")
    expect(page.get_by_role("rowheader")).to_have_text(["joined", "behind-most", "behind"])
    expect(page.get_by_role("row", name="behind-most").get_by_role("cell").nth(5)).to_have_text("orders")
    name, lag, state, behind, catch_up, skew, topics, members = row(page, "behind-most")
    assert (name, lag, state, catch_up, skew, topics, members) == (
        "behind-most",
        "11",
        "Empty",
        "–",
        "2.7×",
        "orders",
        "0",
    )
    assert behind.endswith(" d")
    joined = row(page, "joined")
    assert (joined[1:3], joined[4:]) == (["30", "Stable"], ["–", "1.0×", "orders", "1"])
    page.keyboard.press("/")
    page.keyboard.type("JOI")
    expect(page.get_by_role("rowheader")).to_have_text(["joined"])
    assert page.url.endswith("#/groups?search=JOI")
    page.reload()
    expect(page.get_by_role("rowheader")).to_have_text(["joined"])
    page.get_by_role("link", name="joined").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("joined")


def test_a_group_that_catches_up_says_when(console: Console, gateway: GatewayProcess) -> None:
    """By the rate of the last looks: a time while the lag shrinks, words while it grows or stands still."""
    gateway.topic("read")
    page = console.visits.page(gateway.url)
    page.clock.install()
    end = 0

    def caught_up_in(offset: int, produced: int = 0) -> Locator:
        """The cell, after the group has committed and the page has looked again."""
        nonlocal end
        end += produced
        if produced:
            gateway.produce("read", *map(str, range(produced)), partition=0)
        body = {"offsets": [{"topic": "read", "partition": 0, "offset": offset}]}
        assert gateway.http.put("/v1/groups/reader/offsets", json=body).status_code == 200
        if page.url == "about:blank":
            console.go(page, "/groups?search=reader")
        page.clock.run_for(5_000)
        cells = page.get_by_role("row", name="reader").get_by_role("cell")
        expect(cells.first).to_have_text(f"{end - offset:,}")
        return cells.nth(3)

    expect(caught_up_in(0, produced=1_000)).to_have_text("–")
    # 500 records in one interval between two looks, or in two: the page may have looked once more before the commit.
    expect(caught_up_in(500)).to_have_text(re.compile("^([3-9]|1[0-2])(.[0-9])? s$"))
    expect(caught_up_in(500, produced=1_000)).to_have_text("falls behind")
    expect(caught_up_in(1_000)).to_have_text("stalled")


def test_a_group_shows_lag_and_members(tab: Tab, gateway: GatewayProcess) -> None:
    """Each partition has its lag, its next offset and its reader; a plot shows lag since the page was opened, and goes on."""
    commit(gateway, "shown", 4, 10)
    member = join(gateway, "shown")
    page = tab.open("/groups/shown")
    assert row(page, "orders/0")[1:6:2] == ["6", "4", "worker-1"]
    assert row(page, "orders/1")[1:6] == ["0", "0 ms", "10", "10", "worker-1"]
    unread = row(page, "orders/2")
    assert (unread[1], unread[3:5]) == ("10", ["–", "10"])
    assert row(page, "worker-1")[:3] == ["worker-1", member["member_id"], "one"]
    assert row(page, "worker-1")[6].endswith(" ago")
    assert row(page, "worker-1")[7] == "–"
    plot = page.get_by_role("figure", name="Lag while this page is open")
    expect(plot).to_contain_text("all partitions 16")
    expect(plot.locator("svg path").first).to_have_attribute("d", re.compile("^M[0-9.]+ "))
    gateway.produce("orders", "more", partition=0)
    expect(plot).to_contain_text("all partitions 17")
    page.get_by_role("checkbox", name="Plot orders/0").uncheck()
    expect(plot).not_to_contain_text("orders/0")
    page.get_by_role("link", name="orders/0").click()
    expect(page.locator("main tbody").get_by_role("rowheader").first).to_have_text("0:4")


def test_a_group_shows_the_lag_of_the_last_day(console: Console, gateway: GatewayProcess) -> None:
    """By the history of metrics, for each topic, and not that of other groups; without one there is no plot."""
    commit(gateway, "past", 4, 10)
    figure = "Lag in the last 24 hours"
    page = console.open("/groups/past")
    expect(page.get_by_role("figure", name="Lag while")).to_be_visible()
    expect(page.get_by_role("figure", name=figure)).to_have_count(0)
    series = [
        {"series": "lag_records", "group": group, "topic": topic, "values": [None, first, last, None]}
        for group, topic, first, last in (
            ("other", "orders", 1, 2),
            ("past", "orders", 30, 40),
            ("past", "bills", 5, 0),
        )
    ]
    answer = {"since": 1_700_000_000_000, "step": 900_000, "steps": 4, "resolution_ms": 900_000, "complete": True}
    page = console.visits.page(gateway.url)
    page.route("**/v1/monitoring/history?*", lambda call: call.fulfill(json=answer | {"series": series}))
    console.go(page, "/groups/past")
    expect(page.get_by_role("figure", name=figure)).to_contain_text("orders 40bills 0")
    expect(page.get_by_role("figure", name=figure).locator("path")).to_have_count(2)


@pytest.mark.parametrize(
    ("to", "field", "value", "wanted"),
    [
        ("the earliest record", None, "", 0),
        ("an offset", "Offset", "7", 7),
        ("a shift by records", "Records", "-2", 3),
        ("a time", "First record at or after", "2023-11-14T22:13:23.500", 4),
    ],
)
def test_a_reset_is_previewed_first(
    console: Console, gateway: GatewayProcess, to: str, field: str | None, value: str, wanted: int
) -> None:
    """The preview says what would change, partition by partition; nothing changes before the second button."""
    commit(gateway, "reset", 5, 5, 5)
    page = console.open("/groups/reset")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("To", exact=True).select_option(label=to)
    if field is not None:
        page.get_by_label(field, exact=True).fill(value)
    page.get_by_role("button", name="Preview").click()
    dialog = page.get_by_role("dialog", name="Reset offsets")
    expect(dialog.get_by_role("status")).to_have_text("This changes 3 partitions:")
    moved = f"{5 - wanted} records read again" if wanted < 5 else f"{wanted - 5} records skipped"
    moved = moved.replace("1 records", "1 record")
    assert [cell.inner_text() for cell in dialog.get_by_role("cell").all()] == [moved, "5", str(wanted)] * 3
    assert committed(gateway, "reset") == {0: 5, 1: 5, 2: 5}
    dialog.get_by_role("button", name="Reset 3 partitions").click()
    done(page, "Offsets of 3 partitions reset.")
    assert committed(gateway, "reset") == {0: wanted, 1: wanted, 2: wanted}
    expect(page.get_by_role("row", name="orders/1")).to_contain_text(str(wanted))


def test_a_reset_that_changes_nothing_is_none(tab: Tab, gateway: GatewayProcess) -> None:
    """Where every offset is there already the console says so, and offers no change; one may go back and aim anew."""
    commit(gateway, "there", 0, 0, 0)
    page = tab.open("/groups/there")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("No offset would change")).to_be_visible()
    expect(page.get_by_role("button", name="Reset 0 partitions")).to_be_disabled()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_label("To", exact=True).select_option("latest")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("This changes 3 partitions:")).to_be_visible()


def test_a_group_with_members_is_not_reset(console: Console, gateway: GatewayProcess) -> None:
    """The console says so beforehand, and the gateway's refusal stands where it was asked."""
    commit(gateway, "busy", 5)
    join(gateway, "busy")
    console.visits.expect(409)
    page = console.open("/groups/busy")
    page.get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_text("1 live member. Stop them first")).to_be_visible()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("GROUP_NOT_EMPTY")
    assert committed(gateway, "busy") == {0: 5}


def test_deleting_asks_for_the_name(tab: Tab, gateway: GatewayProcess) -> None:
    """Only the whole name lets it go; the list comes after it."""
    commit(gateway, "gone", 1)
    page = tab.open("/groups/gone")
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog", name="Delete group")
    confirm = dialog.get_by_role("button", name="Delete", exact=True)
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Name of the group").fill("gon")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Name of the group").fill("gone")
    confirm.click()
    done(page, "Group gone is deleted.")
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    assert gateway.http.get("/v1/groups/gone").status_code == 404


def test_a_group_that_is_not_there(console: Console) -> None:
    """The page says so, and offers no change of it."""
    console.visits.expect(404)
    page = console.open("/groups/none")
    expect(page.get_by_role("alert")).to_contain_text("UNKNOWN_GROUP")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
