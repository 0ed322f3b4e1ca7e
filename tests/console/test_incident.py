"""An operator's bad day: each trouble is on the overview within a minute, and one link leads to what says where it is and what to
do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from log_format.clock import SystemClock
from log_format.cluster.maintenance_sign import MaintenanceSign, put_sign
from log_format.stores.local import LocalStore
from tests.support.accessibility import faults_on_screens
from tests.support.browser import Visits
from tests.support.certificate_authority import Authority
from tests.support.console import Console, settled
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.slow_gateway import COMMAND, SWITCH
from tests.support.waiting import until

ALARM: dict[str, Any] = {"severity": "ticket", "about": [], "since": 1_700_000_000_000, "value": 1.0}
READ_ONLY = {"since": 1_700_000_000_000, "reason": "read_only", "detail": "the store is read-only"}
ALARMS = [
    ALARM | {"alarm": "WritesFail", "severity": "page", "said": "The store takes no writes of this gateway."},
    ALARM | {"alarm": "MaintenanceOverdue", "said": "No maintenance has run for 3600 s."},
    ALARM | {"alarm": "AcknowledgementSlow", "severity": "page", "said": "One in a hundred takes 9.0 s."},
    ALARM | {"alarm": "TopicsUnmaintained", "said": "1 topic has more segments than maintenance would leave."},
    ALARM | {"alarm": "ConsumerBehind", "about": ["stuck", "orders"], "said": "stuck/orders: 3600 s old."},
    ALARM | {"alarm": "CertificateExpires", "said": "The certificate expires within 14 days."},
    ALARM | {"alarm": "QueueBlocked", "about": ["emails", "orders"], "said": "Queue emails/orders: 50000 s."},
    ALARM | {"alarm": "StateNearItsBound", "about": ["transactional_ids"], "said": "transactional_ids takes 90%."},
]


def damage(store: Path, log_path: Path) -> None:
    """Leave a store with a damaged topic, one with three segments, a group that has read one record of three, and
    maintenance that died an hour ago."""
    with running_gateway(store, log_path) as first:
        for name in ("aaa", "hurt", "orders"):
            first.topic(name)
        for value in "abc":
            first.produce("orders", value, partition=0)
        body = {"offsets": [{"topic": "orders", "partition": 0, "offset": 1}]}
        assert first.http.put("/v1/groups/stuck/offsets", json=body).status_code == 200
        assert first.http.put("/v1/queues/emails", json={"topics": ["orders"]}).status_code == 201
        assert first.http.patch("/v1/topics/hurt", json={"partition_count": 2}).status_code == 200
    (store / "topics" / "hurt" / "_delta_log" / f"{0:020d}.json").unlink()
    dead = MaintenanceSign(seen_at=SystemClock().now_ms() - 3_600_000, every_ms=60_000, failed_topics=1)
    put_sign(LocalStore(store), dead)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """The damaged store."""
    directory = tmp_path_factory.mktemp("incident")
    damage(directory / "store", directory / "1.log")
    with running_gateway(directory / "store", directory / "2.log") as second:
        yield second


@pytest.fixture
def overview(visits: Visits, gateway: GatewayProcess) -> Page:
    """The first page, with these alarms, of a gateway that nobody sends anything, and whose store became read-only."""
    page = visits.page(gateway.url)
    page.route("**/readyz", lambda call: call.fulfill(json={"status": "ready", "failing_writes": READ_ONLY}))
    answer = {"gateway": "g", "alarms": ALARMS, "pending": []}
    page.route("**/v1/monitoring/alarms", lambda call: call.fulfill(json=answer))
    Console(visits, gateway.url).go(page, "/")
    return page


def follow(page: Page, alarm: str, link: str) -> None:
    """From the overview, by the link in the alarm with this text."""
    page.locator(".alarms li", has_text=alarm).get_by_role("link", name=link).click()
    settled(page)


def test_a_damaged_topic_is_found_with_what_to_type(overview: Page) -> None:
    """Before any client asks for it: the gateway has looked at all topics."""
    expect(overview.locator(".alarms li", has_text="Topic hurt is damaged")).to_be_visible()
    follow(overview, "hurt is damaged", "what to do")
    expect(overview.get_by_role("alert").get_by_role("code")).to_have_text("tidelog doctor --store STORE --repair hurt")


def test_a_stuck_group_is_found_at_the_record_that_it_waits_at(overview: Page) -> None:
    """The group's page shows the lag by partition, and a partition leads to the record."""
    follow(overview, "stuck/orders", "stuck")
    overview.get_by_role("link", name="orders/0").click()
    expect(overview.get_by_role("rowheader").first).to_have_text("0:1")


def test_a_slow_store_is_seen_in_its_plot(overview: Page) -> None:
    """The plot of the last hour is marked and in sight."""
    overview.set_viewport_size({"width": 380, "height": 700})
    follow(overview, "9.0 s", "Acknowledgement of the last hour")
    plot = overview.locator(".card.marked")
    expect(plot).to_contain_text("Acknowledgement")
    expect(plot).to_be_in_viewport()


def test_dead_maintenance_is_seen_at_the_topics_that_wait_for_it(overview: Page) -> None:
    """Those with the most segments come first."""
    follow(overview, "more segments", "topics with the most segments")
    expect(overview.get_by_role("rowheader").first).to_have_text("orders")


def test_maintenance_that_died_an_hour_ago_is_told_once_with_the_time(overview: Page) -> None:
    """By its sign of life, long before any topic has many segments; what failed in its last round is told, too."""
    told = overview.locator(".alarms li", has_text="aintenance")
    expect(told.filter(has_text=re.compile(r"No maintenance has run since \d{4}-\d\d-\d\d \d\d:\d\d: "))).to_have_count(
        1
    )
    expect(told.filter(has_text="failed for 1 topic")).to_have_count(1)
    expect(overview.locator(".figures").get_by_text("Maintenance").locator("..")).to_contain_text("1 h ago")
    follow(overview, "No maintenance has run", "topics with the most segments")
    expect(overview.get_by_role("rowheader").first).to_have_text("orders")


def test_a_read_only_store_is_told_once_with_its_reason(overview: Page) -> None:
    """As urgent, also where nobody sends: the gateway knows by its heartbeat. It leads to the gateways."""
    told = overview.locator(".alarms li.bad", has_text="rites")
    expect(told).to_have_count(1)
    expect(told).to_contain_text("Writes of this gateway fail: the store is read-only.")
    follow(overview, "read-only", "gateways")
    expect(overview.get_by_role("heading", name="Gateways")).to_be_in_viewport()


def test_a_certificate_a_queue_and_a_bound_lead_to_their_places(overview: Page) -> None:
    """The gateways are in sight, and the other pages open."""
    follow(overview, "certificate", "gateways")
    expect(overview.get_by_role("heading", name="Gateways")).to_be_in_viewport()
    follow(overview, "Queue emails", "emails")
    expect(overview.get_by_role("heading", level=1)).to_have_text("emails")
    overview.go_back()
    follow(overview, "transactional_ids", "transactions")
    expect(overview.get_by_role("heading", level=1)).to_have_text("Transactions")


def test_the_bad_day_is_for_everyone(overview: Page) -> None:
    """Names, contrast and sizes are right, and nothing scrolls sideways."""
    assert faults_on_screens(overview, 320, 1280) == []


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[GatewayProcess]:
    """The damaged store, of which writes have just become slow, by a gateway whose certificate ends in two days. A member of the
    group ``alive`` reads nothing, and committed before the last record was sent."""
    directory = tmp_path_factory.mktemp("slow")
    damage(directory / "store", directory / "1.log")
    certificate, key = authority.issue()
    with running_gateway(
        *(directory / "store", directory / "2.log", "--tls-cert", certificate, "--tls-key", key),
        command=COMMAND,
        environment={SWITCH: str(directory / "slow")},
        trust=authority.trust(),
    ) as started:
        joined = started.http.post(
            "/v1/groups/alive/members", json={"topics": ["orders"], "session_timeout_ms": 600_000}
        )
        assert joined.status_code == 201, joined.text
        body = {"offsets": [{"topic": "orders", "partition": 0, "offset": 3}]}
        body |= {name: joined.json()[name] for name in ("member_id", "generation")}
        assert started.http.put("/v1/groups/alive/offsets", json=body).status_code == 200
        for _ in range(20):
            started.produce("aaa", "before")
        (directory / "slow").touch()
        started.produce("orders", "d", partition=0)
        yield started


def told(gateway: GatewayProcess) -> dict[str, str]:
    """What the overview reads of the gateway: the names of the troubles, with what they are about, and the sentences."""
    alarms = gateway.http.get("/v1/monitoring/alarms").json()
    found = {
        "/".join([one.get("alarm", "ConsumerStalled"), *one["about"]]): one["said"]
        for some in ("alarms", "pending", "notices")
        for one in alarms[some]
    }
    found["maintenance"] = gateway.http.get("/v1/cluster?include=maintenance").json()["maintenance"]["state"]
    summary = gateway.http.get("/v1/topics:summary?limit=0").json()
    return found | {f"damaged/{one['name']}": one["detail"] for one in summary["damaged"]}


def test_each_trouble_is_told_within_a_minute(slow: GatewayProcess, visits: Visits) -> None:
    """From the moment it is there: what the overview reads names it, and the overview shows it. Nothing is faked."""
    wanted = {
        "ConsumerStalled/alive/orders",
        "ConsumerStalled/stuck/orders",
        "AcknowledgementSlow",
        "CertificateExpires",
        "damaged/hurt",
    }
    began = time.monotonic()
    until(lambda: wanted <= told(slow).keys(), seconds=60, every=1)
    assert time.monotonic() - began < 60
    found = told(slow)
    assert found["maintenance"] == "overdue"
    assert "1 record of the topic is unread, and the group has 1 member." in found["ConsumerStalled/alive/orders"]
    assert "3 records of the topic are unread, and the group has no members." in found["ConsumerStalled/stuck/orders"]
    page = Console(visits, slow.url).open("/")
    for text in (
        "Group alive has committed nothing in partition 0 of orders",
        "Group stuck has committed nothing in partition 0 of orders",
        "One in a hundred acknowledgements",
        "certificate",
        "hurt is damaged",
        "No maintenance has run",
    ):
        expect(page.locator(".alarms li", has_text=text)).to_have_count(1)
    follow(page, "Group alive", "alive")
    expect(page.get_by_role("heading", level=1)).to_have_text("alive")
