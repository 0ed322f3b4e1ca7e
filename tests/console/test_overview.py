"""The overview: what is amiss stands first, then the last hour or more, then the gateways; what may not be seen is told."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.support.accessibility import faults_on_screens
from tests.support.browser import Visits
from tests.support.console import Console, Tab, row
from tests.support.gateway_process import GatewayProcess
from tests.support.secured import Secured

HISTORY = (
    "produced_records,fetched_records,produced_bytes,sent_bytes,acknowledgement_p50_ms,acknowledgement_p99_ms,commit_p50_ms,"
    "commit_p99_ms,lag_records,store_puts,store_gets,stored_bytes,store_lists,store_heads"
)
"""The series that the page asks for."""


def _fulfill(answer: Any, call: Route) -> None:
    call.fulfill(json=answer)


def _answer(status: int, answer: Any, call: Route) -> None:
    call.fulfill(status=status, json=answer)


def answered(console: Console, url: str, **answers: Any) -> Page:
    """A page whose calls of these routes below ``/v1`` (``_`` for ``/``) have these answers."""
    page = console.visits.page(url)
    for route, answer in answers.items():
        page.route(re.compile(f"/v1/{route.replace('_', '/')}$"), partial(_fulfill, answer))
    return page


def test_the_overview_tells_how_it_is(console: Console, gateway: GatewayProcess) -> None:
    """The gateway is listed, its hour begins, and nothing is amiss; what a gateway says is shown as text."""
    page = console.open("/")
    expect(page.get_by_text("there are no alarms")).to_be_visible()
    maintenance = page.locator(".figures").get_by_text("Maintenance").locator("..")
    expect(maintenance).to_have_text(
        "Maintenancenever start tidelog maintain: it merges small files and applies retention"
    )
    only = gateway.http.get("/v1/cluster").json()["gateways"][0]
    assert row(page, only["id"])[1] == only["url"]
    points: dict[str, list[float | None]] = {
        name: [1.0, 2.0] for name in gateway.http.get("/v1/activity").json()["points"]
    }
    points |= {"at": [1_700_000_000_000, 1_700_000_010_000], "commit_p99_ms": [None, 7.5]}
    page = answered(console, gateway.url, activity={"gateway": "<b>g</b>", "interval_ms": 10_000, "points": points})
    page.goto(gateway.url)
    expect(page.get_by_text("<b>g</b>")).to_be_visible()
    figure = page.get_by_role("figure", name="Commit")
    expect(figure).to_contain_text("7.5 ms")
    expect(figure.locator("svg path").first).to_have_attribute("d", re.compile("^M[0-9.]+ .*L"))
    figure.locator("svg").hover()
    expect(figure.locator(".tip")).to_contain_text("p50 1 ms")
    expect(page.get_by_role("figure", name="Bytes").locator(".tip")).to_contain_text("sent 1 B/s")


def test_alarms_stand_first_and_lead_to_what_they_are_about(console: Console, gateway: GatewayProcess) -> None:
    """The urgent ones are marked, pending ones are said to be, and a group that is behind is a link."""
    console.visits.expect(404)  # the group is not there
    alarm = {"severity": "page", "about": ["UNAVAILABLE"], "since": 1_700_000_000_000, "value": 1.0}
    fires = alarm | {"alarm": "FlushesFail", "said": "Flushes fail with <i>UNAVAILABLE</i>."}
    waits = alarm | {
        "alarm": "ConsumerBehind",
        "severity": "ticket",
        "about": ["late", "orders"],
        "said": "late/orders: old.",
    }
    page = answered(console, gateway.url, monitoring_alarms={"gateway": "g", "alarms": [fires], "pending": [waits]})
    page.goto(gateway.url)
    shown = page.locator(".alarms li")
    expect(shown).to_have_text(
        [
            re.compile("<i>UNAVAILABLE</i>. Commit of the last hour firing since"),
            re.compile("old. late, orders pending since"),
        ]
    )
    expect(shown.first).to_have_class("bad")
    expect(shown.last).not_to_have_class("bad")
    shown.last.get_by_role("link", name="late").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("late")


def test_a_store_that_does_not_answer_or_takes_nothing_stands_first(console: Console, gateway: GatewayProcess) -> None:
    """Before all alarms, marked as urgent, and not beside a word that the store answers."""
    console.visits.expect(503)
    alarm = {"severity": "ticket", "about": [], "since": 1_700_000_000_000, "value": 1.0, "alarm": "StoreErrors"}
    alarms = {"gateway": "g", "alarms": [alarm | {"said": "Calls to the store fail."}], "pending": []}
    away = {
        "status": 503,
        "title": "no",
        "detail": "The store did not answer within 5000 ms.",
        "error_code": "UNAVAILABLE",
    }
    told = {"since": 1_700_000_000_000, "reason": "read_only", "detail": "the store is read-only"}
    for status, answer, said in (
        (503, away, "The store did not answer within 5000 ms."),
        (200, {"status": "ready", "failing_writes": told}, "Writes of this gateway fail: the store is read-only."),
    ):
        page = answered(console, gateway.url, monitoring_alarms=alarms)
        page.route("**/readyz", partial(_answer, status, answer))
        page.goto(gateway.url)
        shown = page.locator(".alarms li")
        expect(shown).to_have_count(2)
        expect(shown.first).to_contain_text(said)
        expect(shown.first).to_have_class("bad")
        expect(page.get_by_text("The store answers")).to_have_count(0)


def test_the_history_is_of_all_gateways(console: Console, gateway: GatewayProcess) -> None:
    """Rates a second, with gaps where nothing is known; the largest lag leads to its group; a month's cost is that of the day."""
    console.visits.expect(404)  # the group is not there
    assert gateway.http.get("/v1/monitoring/history", params={"series": HISTORY}).status_code == 200
    numbers = {"produced_records": 900_000, "store_puts": 900, "store_lists": 0, "store_gets": 1800, "store_heads": 0}
    values = {name: [None, 900.0, numbers.get(name, 1.0), None] for name in HISTORY.split(",")} | {
        "stored_bytes": [None, 1, 1e12, None]
    }
    answer = {"since": 1_700_000_000_000, "step": 900_000, "steps": 4, "resolution_ms": 900_000, "complete": True}

    def tell(call: Route) -> None:
        series = [{"series": name, "values": found} for name, found in values.items()]
        if "by=group" in call.request.url:
            series = [
                {"series": "lag_records", "group": group, "topic": "t", "values": [7.0, lag, None]}
                for group, lag in (("near", 5.0), ("late", 120_000.0), ("done", 0.0))
            ]
        call.fulfill(json=answer | {"series": series})

    page = console.visits.page(gateway.url)
    page.route("**/v1/monitoring/history?*", tell)
    page.goto(gateway.url)
    figures = page.locator(".figures")
    expect(figures).to_contain_text("120,000 late")
    # 1,000 GB, and each second 1 PUT, 0.5 LISTs, 1.5 GETs and 0.5 HEADs: $23 + $13.14 + $6.57 + $1.58 + $0.53.
    expect(figures).to_contain_text("$44.81")
    page.get_by_role("button", name="24 hours").click()
    expect(page).to_have_url(re.compile("range=day"))
    expect(page.get_by_role("figure", name="Records")).to_contain_text("produced 1,000/s")
    expect(page.get_by_role("figure", name="Largest lag")).to_contain_text("records 1")
    expect(page.get_by_role("figure", name="Records").locator("path").first).to_have_attribute(
        "d", re.compile("^M[^M]*L[^M]*$")
    )
    assert faults_on_screens(page, 320, 1280) == []
    page.get_by_role("link", name="late").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("late")


def test_without_a_history_the_page_says_why(tab: Tab) -> None:
    """Nothing is written yet: no gateway has run for five minutes. So how far groups are behind is not known, not 0."""
    page = tab.open("/?range=week")
    expect(page.get_by_text("No history yet")).to_be_visible()
    expect(page.locator(".figures").get_by_text("Largest lag").locator("..")).to_have_text("Largest lag–")
    expect(page.get_by_role("button", name="7 days")).to_have_attribute("aria-pressed", "true")


def test_zones_are_shown_where_gateways_tell_theirs(console: Console, gateway: GatewayProcess) -> None:
    """How many there are, and each gateway's; where none tells its zone there is no column for it."""
    assert console.open("/").get_by_role("columnheader", name="Zone").count() == 0
    cluster = gateway.http.get("/v1/cluster").json()
    (one,) = cluster["gateways"]
    several = [{**one, "id": f"g-{number}", "zone": zone} for number, zone in enumerate(["za", "zb", "za", None])]
    page = console.visits.page(gateway.url)
    page.route("**/v1/cluster?include=maintenance", lambda route: route.fulfill(json=cluster | {"gateways": several}))
    page.goto(gateway.url)
    expect(page.get_by_text("in 2 zones")).to_be_visible()
    assert [row(page, f"g-{number}")[2] for number in range(4)] == ["za", "zb", "za", "–"]


def test_the_hour_is_for_operators(visits: Visits, secured: Secured) -> None:
    """A user without rights sees the gateways, and is told what the rest needs."""
    visits.expect(403)
    _, user = secured.user()
    page = Console(visits, secured.url, user.token).open("/")
    expect(page.get_by_text("You need the right Describe on the cluster")).to_be_visible()
    expect(page.get_by_role("region", name="Gateways", exact=True).first).to_be_visible()
