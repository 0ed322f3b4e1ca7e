"""Names and values that others chose are text in the console: nothing of them runs, hides, or breaks a page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.accessibility import overflow
from tests.support.console import Console, Tab, escaped, settled
from tests.support.gateway_process import GatewayProcess

NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</textarea></title><svg onload=alert(1)>",
    "javascript:alert(1)",
    "a/b?c=d#e%2F%20 f+g",
    "\u202etxt.exe\u2066",
    "__proto__",
    "constructor",
    "${alert(1)}{{7*7}}",
    "x" * 255,
]


@pytest.fixture(scope="module", autouse=True)
def data(gateway: GatewayProcess) -> None:
    """A group, an instance, a queue and a transaction of each name, and a dead letter whose reason is one."""
    http = gateway.http
    gateway.topic("t")
    gateway.topic("dead")
    gateway.produce("t", *NAMES)
    for name in NAMES:
        path = quoted(name)
        offsets = [{"topic": "t", "partition": 0, "offset": 0, "metadata": name}]
        assert http.put(f"/v1/groups/{path}/offsets", json={"offsets": offsets}).status_code == 200
        member = {"topics": ["t", "missing"], "client_id": name, "instance_id": name, "session_timeout_ms": 1_800_000}
        assert http.post(f"/v1/groups/{path}/members", json=member).status_code == 201
        queue = {
            "topics": ["t"],
            "start": "earliest",
            "dead_letter_topic": "dead",
            "filter": {"headers": [f"{name[:200]}:x"]},
        }
        assert http.put(f"/v1/queues/{path}", json=queue).status_code == 201
        assert http.post("/v1/transactions", json={"transactional_id": name, "timeout_ms": 900_000}).status_code == 201
    http.put("/v1/queues/dying", json={"topics": ["t"], "start": "earliest", "dead_letter_topic": "dead"})
    received = http.post("/v1/queues/dying:receive", json={"max_records": len(NAMES)}).json()["records"]
    settlements = [
        {name: record[name] for name in ("topic", "partition", "offset", "lease")}
        | {"action": "reject", "reason": NAMES[0]}
        for record in received
    ]
    http.post("/v1/queues/dying:settle", json={"settlements": settlements})


def quoted(name: str) -> str:
    return "".join(f"%{byte:02X}" for byte in name.encode())


def sound(page: Page) -> None:
    """Nothing but the console's own elements is there, and the page is no wider than the screen."""
    settled(page)
    foreign = "main :is(script, img, iframe, object, embed, form[action], svg:not(.plot svg), [onerror], [onload])"
    assert page.locator(foreign).count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert overflow(page) == []


@pytest.mark.parametrize("route", ["/groups", "/queues", "/transactions"])
def test_lists_show_names_as_they_are(tab: Tab, route: str) -> None:
    """Every name is a text of the list, whole, and keeps its direction to itself."""
    page = tab.open(route, width=320)
    for name in NAMES:
        expect(page.get_by_role("rowheader").get_by_text(escaped(name), exact=True)).to_be_visible()
    assert page.evaluate(
        "[...document.querySelectorAll('main tbody .value')].every(e => getComputedStyle(e).unicodeBidi === 'isolate')"
    )
    sound(page)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_leads_to_its_page_and_back(tab: Tab, name: str) -> None:
    """The link of a group and of a queue leads to the one with just this name."""
    for kind in ("groups", "queues"):
        page = tab.open(f"/{kind}")
        page.get_by_role("link", name=escaped(name), exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(escaped(name))
        sound(page)
        expect(page.get_by_role("alert")).to_have_count(0)


def test_members_and_dead_letters_are_text(console: Console) -> None:
    """Names that clients gave themselves, reasons that receivers gave, values; by their addresses."""
    page = console.open(f"/groups/{quoted(NAMES[1])}", width=320)
    expect(page.get_by_role("rowheader", name=NAMES[1], exact=True)).to_be_visible()
    sound(page)
    console.go(page, "/queues/dying")
    expect(page.get_by_text(NAMES[0]).first).to_be_visible()
    sound(page)


@pytest.mark.parametrize("name", [NAMES[1], NAMES[5]])
def test_what_is_amiss_is_told_in_text(tab: Tab, name: str) -> None:
    """A sentence of the overview has names of groups, queues and topics in it: none of them turns or ends it."""
    said = f"{name}/t: no offset was committed for 31 s."
    notice = {
        "notice": "ConsumerStalled",
        "severity": "ticket",
        "about": [name, "t"],
        "since": 1,
        "value": 31,
        "said": said,
    }
    answer = {"gateway": "g", "alarms": [], "pending": [], "notices": [notice]}
    page = tab.open("/groups")
    page.route("**/v1/monitoring/alarms", lambda call: call.fulfill(json=answer))
    tab.go(page, "/")
    expect(page.locator(".alarms li", has_text=" no offset was")).to_contain_text(escaped(said))
    page.unroute("**/v1/monitoring/alarms")
    sound(page)


def test_what_is_typed_is_text(console: Console, gateway: GatewayProcess) -> None:
    """A search for markup finds it; deleting asks for just that name and deletes just that group."""
    name = "<b>gone</b>"
    offsets = [{"topic": "t", "partition": 0, "offset": 0}]
    gateway.http.put(f"/v1/groups/{quoted(name)}/offsets", json={"offsets": offsets})
    page = console.open("/groups")
    page.get_by_label("Search").fill("<b>")
    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Name of the group").fill(name)
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".toasts")).to_contain_text(f"Group {name} is deleted.")
    assert gateway.http.get(f"/v1/groups/{quoted(name)}").status_code == 404
    assert len(gateway.http.get("/v1/groups").json()["groups"]) == len(NAMES)


@pytest.mark.parametrize(
    "query", ["?search=%", "?search=%E0%A4%A", "?search[]=1&__proto__=x", "/%E0%A4%A", "/%00", "/../../etc"]
)
def test_odd_addresses(console: Console, query: str) -> None:
    """An address that no link leads to shows a page or says what is not there."""
    console.visits.expect(400, 404)
    page = console.open(f"/groups{query}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    sound(page)
