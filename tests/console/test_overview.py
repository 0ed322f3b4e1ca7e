"""The overview: what is amiss stands first, then the last hour, then the gateways; and a part that may not be seen is told."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.support.browser import Visits
from tests.support.console import Console, row
from tests.support.gateway_process import GatewayProcess
from tests.support.secured import Secured


def test_the_overview_tells_how_it_is(console: Console, gateway: GatewayProcess) -> None:
    """The gateway is listed, its hour begins, and nothing is amiss; alarms of the gateway are shown as text."""
    page = console.open("/")
    expect(page.get_by_text("there are no alarms")).to_be_visible()
    only = gateway.http.get("/v1/cluster").json()["gateways"][0]
    assert row(page, only["id"])[1] == only["url"]
    alarmed = console.visits.page(gateway.url)
    points = {name: [1.0, 2.0] for name in gateway.http.get("/v1/activity").json()["points"]}
    hour = {
        "gateway": "<b>g</b>",
        "interval_ms": 10_000,
        "points": points | {"at": [1_700_000_000_000, 1_700_000_010_000], "commit_p99_ms": [None, 7.5]},
        "alarms": [{"severity": "bad", "what": "flush_failures", "said": "<i>3 flushes</i> were not acknowledged"}],
    }
    alarmed.route("**/v1/activity", lambda route: route.fulfill(json=hour))
    alarmed.goto(gateway.url)
    expect(alarmed.get_by_text("<i>3 flushes</i> were not acknowledged")).to_be_visible()
    expect(alarmed.get_by_text("<b>g</b>")).to_be_visible()
    figure = alarmed.get_by_role("figure", name="Commit")
    expect(figure).to_contain_text("7.5 ms")
    expect(figure.locator("svg path").first).to_have_attribute("d", re.compile("^M[0-9.]+ .*L"))
    figure.locator("svg").hover()
    expect(figure.locator(".tip")).to_contain_text("p50 1 ms")


def test_zones_are_shown_where_gateways_tell_theirs(console: Console, gateway: GatewayProcess) -> None:
    """How many there are, and each gateway's; where none tells its zone there is no column for it."""
    assert console.open("/").get_by_role("columnheader", name="Zone").count() == 0
    cluster = gateway.http.get("/v1/cluster").json()
    (one,) = cluster["gateways"]
    several = [{**one, "id": f"g-{number}", "zone": zone} for number, zone in enumerate(["za", "zb", "za", None])]
    page = console.visits.page(gateway.url)
    page.route("**/v1/cluster", lambda route: route.fulfill(json=cluster | {"gateways": several}))
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


def test_the_first_paint_is_quick(console: Console) -> None:
    """The shell is drawn before data is there. The machine may have company, which makes it slower and never quicker."""
    paints: list[float] = []
    while len(paints) < 6 and min(paints, default=1_000) >= 1_000:
        page = console.open("/", cold=True)
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    assert min(paints) < 1_000
