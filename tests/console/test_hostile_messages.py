"""Records are shown as they are, whatever bytes they have: nothing of them runs, hides, or takes the browser down."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.accessibility import overflow
from tests.support.browser import Visits
from tests.support.console import Console, Tab, escaped, settled
from tests.support.gateway_process import GatewayProcess

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)></textarea></pre>"
BIDI = "\u202egpj.exe\u2066 \u05d0\u05d1"
LONG_NAME = "n" * 10_000
BYTES = bytes(range(256))
DEEP = "[" * 5_000 + "]" * 5_000
NUMBERS = '{"id":12345678901234567890,"__proto__":{"x":1},"a":1,"a":2}'
LARGE = '{"text":"' + "x" * 1_040_000 + '"}'
RECORDS: list[dict[str, Any]] = [
    {"key": MARKUP, "value": MARKUP, "headers": [{"key": MARKUP, "value": MARKUP}]},
    {"key": BIDI, "value": BIDI, "headers": [{"key": BIDI, "value": BIDI}]},
    {"key": "nul", "value": "a\u0000b\u0007\u001b[31mc", "headers": [{"key": "nul", "value": "\u0000"}]},
    {"key": "long name", "value": "v", "headers": [{"key": LONG_NAME, "value": "x" * 10_000}]},
    {
        "key": "many",
        "value": "v",
        "headers": [{"key": f"h{number % 3}", "value": str(number)} for number in range(300)],
    },
    {
        "key": "bytes",
        "value_base64": base64.b64encode(BYTES).decode(),
        "headers": [{"key": "b", "value_base64": "/w=="}],
    },
    {"key_base64": "//8=", "value": None},
    {"key": None, "value": ""},
    {"key": "numbers", "value": NUMBERS},
    {"key": "deep", "value": DEEP},
    {"key": "one line", "value": "\u2028\u2029\n\r\n\t" * 20},
]


@pytest.fixture(scope="module", autouse=True)
def data(gateway: GatewayProcess) -> None:
    """A record of each kind in one partition, and twenty of a megabyte in another topic."""
    gateway.topic("odd")
    answer = gateway.http.post("/v1/topics/odd/partitions/0/records", json={"records": RECORDS})
    assert answer.status_code == 200, answer.text
    gateway.topic("large")
    for _ in range(2):
        body = {"records": [{"key": "large", "value": LARGE}] * 10}
        assert gateway.http.post("/v1/topics/large/partitions/0/records", json=body).status_code == 200


@pytest.fixture(autouse=True)
def unknown_schema(lasting: Visits, visits: Visits) -> None:
    """``BYTES`` begin as a value that names a schema does; the registry does not know the id."""
    lasting.expect(404)
    visits.expect(404)


def sound(page: Page) -> None:
    """Only the console's own elements are there, and nothing is wider than the screen."""
    assert page.locator("main :is(script, img, iframe, object, embed, [onerror], [onload])").count() == 0
    assert overflow(page) == []


def record(tab: Tab, offset: int, topic: str = "odd", **look: Any) -> Page:
    """The dialog of one record."""
    page = tab.open(f"/topics/{topic}/messages?from=earliest", **look)
    page.get_by_role("button", name=f"0:{offset}", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.wait_for_function("() => !document.querySelector('.drawer .loading')")
    return page


@pytest.mark.parametrize("width", [320, 1280])
def test_a_list_of_odd_records(tab: Tab, width: int) -> None:
    """Each has its row, what is null says so, and values keep their direction to themselves."""
    page = tab.open("/topics/odd/messages?from=earliest", width=width)
    expect(page.get_by_role("rowheader")).to_have_count(len(RECORDS))
    sound(page)
    expect(page.get_by_role("cell", name=MARKUP[:60]).first).to_be_visible()
    assert page.evaluate(
        "[...document.querySelectorAll('main tbody .value')].every(e => getComputedStyle(e).unicodeBidi === 'isolate')"
    )


@pytest.mark.parametrize("offset", range(len(RECORDS)))
def test_each_record_can_be_opened(tab: Tab, offset: int) -> None:
    """In every form that it has, on a small screen."""
    page = record(tab, offset, width=320)
    for form in page.get_by_role("group", name="Format").get_by_role("button").all():
        form.click()
        sound(page)


def test_a_text_is_the_records_bytes(tab: Tab) -> None:
    """Markup, control characters and directions stand there as they came; headers too."""
    page = record(tab, 0)
    expect(page.get_by_label("Value", exact=True)).to_have_text(MARKUP)
    expect(page.locator(".drawer dt").filter(has_text="<script>")).to_have_count(1)
    page = record(tab, 1)
    assert page.get_by_label("Value", exact=True).evaluate("e => e.textContent") == escaped(BIDI)
    assert page.get_by_label("Value", exact=True).evaluate("e => getComputedStyle(e).unicodeBidi") != "normal"


def test_json_keeps_what_was_sent(tab: Tab) -> None:
    """Digits beyond a double, members twice, and names that objects have by themselves."""
    page = record(tab, 8)
    shown = page.get_by_label("Value", exact=True).inner_text()
    assert "".join(shown.split()) == NUMBERS


def test_bytes_are_shown_in_hex(tab: Tab) -> None:
    """All of them, with what of them is ASCII; a key that is no text, too."""
    page = record(tab, 5)
    shown = page.get_by_label("Value", exact=True).inner_text()
    assert len(shown.splitlines()) == 16
    assert shown.startswith("00000000  00 01 02 03")
    page = record(tab, 6)
    expect(page.get_by_role("dialog")).to_contain_text("0xffff")
    expect(page.get_by_role("dialog")).to_contain_text("a tombstone")


def test_large_values_do_not_hold_the_page_up(console: Console) -> None:
    """The list shows the beginning of each; one that is opened says how much it has, and that it is cut."""
    page = console.open("/topics/large/messages?from=earliest", width=320)
    expect(page.get_by_role("rowheader").first).to_be_visible()
    assert len(page.content()) < 200_000
    sound(page)
    page.get_by_role("button", name="0:0", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("only the start is shown")
    assert len(page.content()) < 1_000_000
    sound(page)


def test_what_was_searched_for_is_found(console: Console) -> None:
    """A filter on markup finds the record with it, and no other."""
    page = console.open("/topics/odd/messages?from=earliest")
    page.get_by_label("Value contains").fill("</textarea>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("rowheader")).to_have_count(1)
    settled(page)
    sound(page)
