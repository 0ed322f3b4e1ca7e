"""What holds for every page of the console: it can be read, reached and used by anybody, on any screen, with data and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.accessibility import faults, focus_walk, overflow, sideways
from tests.support.browser import Visits
from tests.support.console import Console, Tab, settled
from tests.support.gateway_process import GatewayProcess, running_gateway

ROUTES = [
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders?tab=read",
    "/topics/orders?tab=storage",
    "/topics/orders?tab=settings",
    "/topics/orders/messages",
    "/groups",
    "/groups/billing",
    "/queues",
    "/queues/emails",
    "/transactions?state=all",
    "/schemas",
    "/schemas/orders-value",
    "/topics/typed",
    "/sql",
    "/access",
    "/no/such/page",
]
LISTS = ["/", "/topics", "/groups", "/queues", "/transactions", "/schemas", "/access"]


@pytest.fixture(scope="module", autouse=True)
def data(gateway: GatewayProcess) -> None:
    """Something of everything."""
    http = gateway.http
    gateway.topic("orders", 3)
    gateway.topic("dead")
    for schema in ('{"type":"record","name":"O","fields":[{"name":"order","type":"long"}]}', '"long"'):
        http.put("/registry/config/orders-value", json={"compatibility": "NONE"})
        assert http.post("/registry/subjects/orders-value/versions", json={"schema": schema}).status_code == 200
    typed = {"name": "typed", "config": {"value.schema": "typed-value"}}
    http.post("/registry/subjects/typed-value/versions", json={"schema": '"long"'})
    assert http.post("/v1/topics", json=typed).status_code == 201
    for partition in range(3):
        gateway.produce("orders", *(f'{{"order":{number}}}' for number in range(20)), partition=partition)
    offsets = [{"topic": "orders", "partition": partition, "offset": 5} for partition in range(3)]
    http.put("/v1/groups/billing/offsets", json={"offsets": offsets})
    http.post(
        "/v1/groups/billing/members",
        json={"topics": ["orders"], "client_id": "worker", "session_timeout_ms": 1_800_000},
    )
    http.put("/v1/queues/emails", json={"topics": ["orders"], "start": "earliest", "dead_letter_topic": "dead"})
    received = http.post("/v1/queues/emails:receive", json={"max_records": 1}).json()["records"][0]
    settlement = {name: received[name] for name in ("topic", "partition", "offset", "lease")} | {"action": "reject"}
    http.post("/v1/queues/emails:settle", json={"settlements": [settlement]})
    for name in ("billing-1", "billing-2"):
        http.post("/v1/transactions", json={"transactional_id": name, "timeout_ms": 900_000})


@pytest.mark.parametrize("route", ROUTES)
def test_a_page_is_for_everyone(console: Console, route: str) -> None:
    """It is sound on every screen, and can be walked by keyboard."""
    page = console.open(route)
    # Names, headings, contrast in light and dark, sizes of targets; and from 320 pixels on nothing scrolls sideways.
    for width, height, scheme in [(1280, 800, "light"), (1280, 800, "dark"), (320, 640, "dark"), (3840, 2160, "light")]:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert faults(page) + overflow(page) == [], (width, scheme)
    for width in (320, 380):
        page.set_viewport_size({"width": width, "height": 800})
        assert overflow(page) + sideways(page) == [], width
        assert tables_are_tables(page)
        expect(page.locator("main tbody .minor:visible")).to_have_count(page.locator("main tbody .minor").count())
    page.set_viewport_size({"width": 1280, "height": 800})
    is_walked(page)


def tables_are_tables(page: Page) -> bool:
    """Whether readers of cards hear rows with a head, and each cell that has no label of its own can be told by its column's."""
    rows = page.locator("main tbody tr")
    heads, labels = rows.get_by_role("rowheader"), rows.locator("td:not(.pick):not([data-label])")
    return (
        rows.count() == heads.count() == page.locator("main tbody").get_by_role("row").count() and labels.count() == 0
    )


def is_walked(page: Page) -> None:
    """Tab goes to the skip link, through the navigation in its order, into the page, and back; focus is always seen."""
    there = focus_walk(page, 60)
    assert there[:2] == ["Skip to the page", "Tidelog"]
    assert there[2:5] == ["Overview", "Topics", "Groups"]
    back = focus_walk(page, 3, "Shift+Tab")
    assert len(back) == 3


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that was never used."""
    directory = tmp_path_factory.mktemp("empty")
    with running_gateway(directory / "store", directory / "log") as started:
        yield started


def test_an_empty_page_says_what_it_would_show(visits: Visits, empty: GatewayProcess) -> None:
    """No blank page: one heading, words, and nothing wrong on a small screen either."""
    lists = Tab(visits, empty.url)
    for route in LISTS:
        page = lists.open(route, width=320)
        assert len(page.locator("main").inner_text()) > 40, route
        assert faults(page) + overflow(page) == [], route


DIALOGS = [
    ("/topics/orders?tab=storage", "Erase personal data…"),
    ("/topics/orders?tab=storage", "Clone…"),
    ("/groups/billing", "Reset offsets"),
    ("/groups/billing", "Delete"),
    ("/queues", "Create queue"),
    ("/queues/emails", "Settings"),
    ("/queues/emails", "Redrive"),
    ("/transactions", "Abort billing-1"),
    ("/schemas", "Register schema"),
    ("/schemas/orders-value", "Delete…"),
]


@pytest.mark.parametrize(("route", "button"), DIALOGS)
def test_a_dialog_keeps_the_keyboard(tab: Tab, route: str, button: str) -> None:
    """Opened by a key it has the focus, keeps it, is sound at 320 pixels, closes on Escape, and gives the focus back."""
    page = tab.open(route, width=320)
    opener = page.get_by_role("button", name=button, exact=True)
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog")
    expect(dialog).to_be_visible()
    assert faults_of_dialog(page) == []
    focus_walk(page, 20)
    assert page.evaluate(
        "document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))"
    )
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()


def faults_of_dialog(page: Page) -> list[str]:
    """Its own: the page behind it is out of reach, and out of the accessibility tree."""
    return [fault for fault in faults(page) + overflow(page) if not fault.startswith(("0 of", "h2 behind h0"))]


def test_a_route_is_left_and_come_back_to(console: Console) -> None:
    """The browser's own buttons go through pages; the title names each; focus is in the page."""
    page = console.open("/groups")
    page.get_by_role("link", name="billing").click()
    expect(page).to_have_title("billing · Groups – Tidelog")
    expect(page.locator("main")).to_be_focused()
    page.go_back()
    expect(page).to_have_title("Groups – Tidelog")
    settled(page)
    expect(page.get_by_role("link", name="billing")).to_be_visible()


def test_the_navigation_of_a_small_screen(console: Console) -> None:
    """It is behind a button that says whether it is open, and closes when a page was chosen."""
    page = console.open("/groups", width=320)
    menu = page.get_by_role("button", name="Menu")
    expect(menu).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_role("link", name="Queues")).to_be_hidden()
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    assert faults(page) + overflow(page) == []
    page.get_by_role("link", name="Queues").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    expect(menu).to_have_attribute("aria-expanded", "false")
