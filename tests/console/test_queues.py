"""The console's pages of queues: what is left to do, dead letters, settings; making, changing, redriving, deleting."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.console import Console, Tab, done, row
from tests.support.gateway_process import GatewayProcess
from tests.support.waiting import until


@pytest.fixture(scope="module", autouse=True)
def topics(gateway: GatewayProcess) -> None:
    """Six records to process, and a topic for those that no consumer could process."""
    gateway.topic("emails")
    gateway.topic("dead")
    gateway.produce("emails", *(f"mail {number}" for number in range(6)))


def put(gateway: GatewayProcess, queue: str, **settings: Any) -> None:
    body = {"topics": ["emails"], "start": "earliest"} | settings
    assert gateway.http.put(f"/v1/queues/{queue}", json=body).status_code in (200, 201)


def settings_of(gateway: GatewayProcess, queue: str) -> dict[str, Any]:
    found: dict[str, Any] = gateway.http.get(f"/v1/queues/{queue}").json()
    return found


def settle(gateway: GatewayProcess, queue: str, *actions: str) -> None:
    """Receive as many records as there are actions, and settle each as its action says."""
    received = gateway.http.post(f"/v1/queues/{queue}:receive", json={"max_records": len(actions)}).json()["records"]
    more: dict[str, dict[str, Any]] = {"release": {"delay_ms": 600_000}, "reject": {"reason": "no such address"}}
    asked = [
        {name: record[name] for name in ("topic", "partition", "offset", "lease")}
        | {"action": action}
        | more.get(action, {})
        for record, action in zip(received, actions, strict=True)
        if action != "keep"
    ]
    answer = gateway.http.post(f"/v1/queues/{queue}:settle", json={"settlements": asked}).json()
    assert all(result["settled"] for result in answer["results"]), answer


def test_a_queue_shows_what_is_left(tab: Tab, gateway: GatewayProcess) -> None:
    """Left, in flight and delayed in each partition, and the dead letters with where they came from and why."""
    put(gateway, "shown", dead_letter_topic="dead")
    settle(gateway, "shown", "accept", "reject", "release", "keep")
    page = tab.open("/queues/shown")
    # In flight are the locked record and the delayed one: the gateway holds both back.
    expect(page.get_by_role("row", name="emails/0 4 ")).to_be_visible()
    cells = row(page, "emails/0")
    partition = settings_of(gateway, "shown")["partitions"][0]
    assert cells[1:4] == [str(partition[name]) for name in ("lag", "in_flight", "delayed")]
    assert partition["delayed"] == 1
    expect(page.get_by_role("row", name="emails/0 @ 1")).to_contain_text("mail 1")
    assert row(page, "emails/0 @ 1")[1:3] == ["no such address", "1"]


def test_a_queue_is_made(tab: Tab, gateway: GatewayProcess) -> None:
    """With all that the form says; its page comes after it."""
    page = tab.open("/queues")
    page.get_by_role("button", name="Create queue").click()
    page.get_by_label("Name", exact=True).fill("new queue")
    page.get_by_label("Topics").fill("emails")
    page.get_by_label("Start").select_option("earliest")
    page.get_by_label("Maximum deliveries").fill("3")
    page.get_by_label("Dead letter topic").fill("dead")
    page.get_by_label("Redelivery delays (ms)").fill("1000, 60000")
    page.get_by_label("Headers").fill("kind:mail\nshop:*")
    page.get_by_label("Key").fill("k")
    page.get_by_role("button", name="Create", exact=True).click()
    done(page, "Queue new queue is created.")
    expect(page.get_by_role("heading", level=1)).to_have_text("new queue")
    made = settings_of(gateway, "new%20queue")
    assert (made["topics"], made["start"], made["max_deliveries"], made["dead_letter_topic"], made["backoff_ms"]) == (
        ["emails"],
        "earliest",
        3,
        "dead",
        [1000, 60000],
    )
    assert made["filter"] == {"headers": ["kind:mail", "shop:*"], "key": "k"}


def test_a_refused_queue_says_why(console: Console) -> None:
    """A topic that is not there: the form stays as it is, with the gateway's words."""
    console.visits.expect(404)
    page = console.open("/queues")
    page.get_by_role("button", name="Create queue").click()
    page.get_by_label("Name", exact=True).fill("q")
    page.get_by_label("Topics").fill("nothing")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("UNKNOWN_TOPIC")
    expect(page.get_by_label("Topics")).to_have_value("nothing")


def test_settings_are_changed_and_others_kept(tab: Tab, gateway: GatewayProcess) -> None:
    """The form has what holds, a filter too; saving changes what was typed."""
    put(gateway, "set", dead_letter_topic="dead", backoff_ms=[5], order="key", filter={"headers": ["a:b"]})
    before = settings_of(gateway, "set")
    page = tab.open("/queues/set")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Lock (ms)").fill("60000")
    page.get_by_role("button", name="Save").click()
    done(page, "Queue set is changed.")
    after = settings_of(gateway, "set")
    assert after.pop("lock_ms") == 60_000
    assert after["partitions"]
    del before["lock_ms"], before["partitions"], after["partitions"]
    assert after == before
    expect(page.get_by_text("1 min", exact=True)).to_be_visible()


def test_dead_letters_are_redriven(tab: Tab, gateway: GatewayProcess) -> None:
    """Into the topic that was named, so many as was said."""
    gateway.topic("again")
    gateway.topic("dead-2")
    put(gateway, "redriven", dead_letter_topic="dead-2")
    settle(gateway, "redriven", "reject", "reject", "reject")
    until(lambda: len(gateway.read("dead-2")) == 3)
    page = tab.open("/queues/redriven")
    expect(page.get_by_role("row", name="no such address")).to_have_count(3)
    page.get_by_role("button", name="Redrive").click()
    page.get_by_label("Target topic").fill("again")
    page.get_by_label("Maximum records", exact=True).fill("2")
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    done(page, "2 dead letters redriven.")
    assert [value for _, value in gateway.read("again")] == ["mail 0", "mail 1"]


def test_what_only_says_that_it_is_a_dead_letter_is_told(console: Console, gateway: GatewayProcess) -> None:
    """The dialog shows where it is, and has a choice that passes it."""
    console.visits.expect(400)
    gateway.topic("dead-3")
    put(gateway, "proved", dead_letter_topic="dead-3")
    forged = {"value": "forged", "headers": {"tidelog-dlq-queue": "proved", "tidelog-dlq-topic": "mails"}}
    gateway.http.post("/v1/topics/dead-3/partitions/0/records", json={"records": [forged]})
    page = console.open("/queues/proved")
    page.get_by_role("button", name="Redrive").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "partition 0, offset 0 claims to be a dead letter of queue 'proved'"
    )
    page.get_by_label("Records without proof").select_option("skip them")
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    done(page, "0 dead letters redriven.")


def test_a_queue_is_deleted_by_its_name(tab: Tab, gateway: GatewayProcess) -> None:
    """Not before the name is typed; its topic stays."""
    put(gateway, "gone")
    page = tab.open("/queues/gone")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Name of the queue").fill("gone")
    dialog.get_by_role("button", name="Delete").click()
    done(page, "Queue gone is deleted.")
    assert gateway.http.get("/v1/queues/gone").status_code == 404
    assert gateway.http.get("/v1/topics/emails").status_code == 200
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")


def test_queues_are_listed(tab: Tab, gateway: GatewayProcess) -> None:
    """With what they read and where their dead letters go."""
    put(gateway, "listed", dead_letter_topic="dead", order="key")
    page = tab.open("/queues")
    assert row(page, "listed") == ["listed", "emails", "dead", "30 s", "5", "by key"]
