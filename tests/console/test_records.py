"""A record beside its list: opened by its row, walked from one to the next, linked to, folded, compared; odd text is escaped."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.support.accessibility import faults_on_screens
from tests.support.console import Console, Tab
from tests.support.gateway_process import GatewayProcess

ODD = "a\u202egnp\u2066\u0007b\u0085\ufeff"
ESCAPED = "a\\u202egnp\\u2066\\u0007b\\u0085\\ufeff"


TYPED = """async keys => {
  for (const key of [null, ...keys]) {
    if (key) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    for (let i = 0; i < 20; i += 1) await null;
  }
  return new URLSearchParams(location.hash.split("?")[1]).get("open");
}"""
"""Types keys before the page is painted again, with room between them for what else it does. Returns what is open."""


@pytest.fixture(scope="module", autouse=True)
def topics(gateway: GatewayProcess) -> None:
    """``prices`` has two versions of a key among others; ``odd`` what is empty, binary, or turns the direction of text."""
    gateway.topic("prices")
    values = [
        {"id": number, "price": {"net": number * 10, "cur": "EUR"}, "n": 12345678901234567890} for number in range(4)
    ]
    records = [{"key": f"k-{number % 2}", "value": json.dumps(value)} for number, value in enumerate(values)]
    assert gateway.http.post("/v1/topics/prices/records", json={"records": records}).status_code == 200
    gateway.topic("odd")
    headers = [{"key": ODD, "value": ODD}, {"key": "bytes", "value_base64": "/wCA"}, {"key": "none", "value": ""}]
    odd = [
        {"key": ODD, "value": json.dumps({ODD: ODD}, ensure_ascii=False), "headers": headers},
        {"key": "", "value": ""},
    ]
    assert gateway.http.post("/v1/topics/odd/records", json={"records": odd}).status_code == 200


def drawer(page: Page, offset: int) -> None:
    expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text(f"Partition 0, offset {offset}")


def test_a_row_opens_a_record_and_leads_on(console: Console) -> None:
    """A click in the row; buttons and keys go to its neighbours; Escape gives the focus back; the address has it."""
    page = console.open("/topics/prices/messages?from=earliest")
    page.get_by_role("cell", name='"id": 1').click()
    drawer(page, 1)
    expect(page.locator("tr.marked").get_by_role("rowheader")).to_have_text("0:1")
    page.get_by_role("dialog").get_by_role("button", name="Next", exact=True).click()
    drawer(page, 2)
    page.keyboard.press("j")
    drawer(page, 3)
    expect(page.get_by_role("dialog").get_by_role("button", name="Next", exact=True)).to_be_disabled()
    page.keyboard.press("k")
    drawer(page, 2)
    page.reload()
    drawer(page, 2)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".toasts")).to_contain_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    opener = page.get_by_role("button", name="0:0", exact=True)
    opener.press("Enter")
    drawer(page, 0)
    page.get_by_role("button", name="Copy record").click()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    page.goto(link)
    drawer(page, 2)


def test_keys_count_however_fast_they_come(console: Console) -> None:
    """Each goes on from the record that is open by then, before anything is painted; and so does the one that closes it."""
    page = console.open("/topics/prices/messages?from=earliest&open=0:0")
    drawer(page, 0)
    expect(page.get_by_role("rowheader")).to_have_count(4)
    assert page.evaluate(TYPED, ["j", "j", "j", "k"]) == "0:2"
    drawer(page, 2)
    page.get_by_role("button", name="Close").click()
    opener = page.get_by_role("button", name="0:1", exact=True)
    opener.focus()
    assert opener.evaluate(f"async opener => {{ opener.click(); return ({TYPED})(['j', 'Escape']); }}") is None
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_json_folds_and_versions_of_a_key_differ(tab: Tab) -> None:
    """A fold hides its lines and keeps the digits of the others; *Changes* shows what the record before it with its key had."""
    page = tab.open("/topics/prices/messages?from=earliest&open=0:2")
    value = page.get_by_label("Value", exact=True)
    expect(value).to_contain_text("12345678901234567890")
    expect(value).to_contain_text('"cur": "EUR"')
    page.get_by_role("button", name="Line 3", exact=True).click()
    expect(value).not_to_contain_text("cur")
    expect(value).to_contain_text('"price": { … },')
    expect(value).to_contain_text("12345678901234567890")
    page.get_by_role("button", name="Changes", exact=True).click()
    changes = page.get_by_label("Changes", exact=True)
    expect(changes).to_contain_text('-   "id": 0,')
    expect(changes).to_contain_text('+   "id": 2,')
    page = tab.open("/topics/prices/messages?from=earliest&open=0:1")
    page.get_by_role("button", name="Changes", exact=True).click()
    expect(page.get_by_text("No older record with this key")).to_be_visible()


def test_members_of_json_are_columns(tab: Tab) -> None:
    """Chosen from those that there are, or typed as a path; in the address; with all their digits."""
    page = tab.open("/topics/prices/messages?from=earliest")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("n", exact=True).check()
    page.get_by_label("Another member").fill("price.net")
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader")).to_have_text(["Offset", "Time", "Key", "n", "price.net"])
    cells = page.get_by_role("row").nth(3).get_by_role("cell")
    expect(cells.nth(2)).to_have_text("12345678901234567890")
    expect(cells.nth(3)).to_have_text("20")


def test_a_filter_holds_as_it_is_typed(tab: Tab) -> None:
    """Without a key that confirms it, once the typing rests."""
    page = tab.open("/topics/prices/messages?from=earliest")
    page.get_by_label("Key", exact=True).press_sequentially("k-1")
    expect(page.get_by_role("rowheader")).to_have_text(["0:1", "0:3"])


def test_odd_text_is_escaped(tab: Tab) -> None:
    """In keys, values, headers and their names; bytes are hexadecimal, and what is empty says so."""
    page = tab.open("/topics/odd/messages?from=earliest&open=0:0")
    shown = page.get_by_role("dialog")
    expect(shown.get_by_role("term").nth(2)).to_have_text(ESCAPED)
    expect(shown.get_by_role("definition")).to_have_text([shown_time(page), ESCAPED, ESCAPED, "0xff0080", "empty"])
    expect(shown.get_by_label("Value", exact=True)).to_contain_text(ESCAPED)
    assert not set("\u202e\u2066\u0007\u0085\ufeff") & set(page.locator("main").inner_text())
    page = tab.open("/topics/odd/messages?from=earliest&open=0:1")
    assert page.get_by_role("row").nth(2).get_by_text("empty", exact=True).count() == 2


def shown_time(page: Page) -> str:
    return page.get_by_role("dialog").get_by_role("definition").first.inner_text()


def test_it_is_for_everyone(console: Console) -> None:
    """Names, structure, contrast and sizes are right on every screen, and nothing scrolls sideways."""
    page = console.open("/topics/prices/messages?from=earliest&open=0:2")
    assert faults_on_screens(page, 320, 1280, 2560) == []
