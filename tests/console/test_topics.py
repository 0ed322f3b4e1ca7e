"""The pages of topics: the list with its search and readers, a topic with all that is known of it, and its changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from log_format.topic.config import SETTINGS, ChoiceSetting
from tests.support.accessibility import faults_on_screens
from tests.support.browser import Visits
from tests.support.console import Console, Tab, done, row, settled
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.many_topics import put_topics
from tests.support.secured import Secured


@pytest.fixture(scope="module", autouse=True)
def topics(gateway: GatewayProcess) -> None:
    """``orders`` with ten records in each of three partitions and a group behind, ``unread`` with none."""
    gateway.topic("orders", 3)
    gateway.topic("unread")
    gateway.topic("other")
    for partition in range(3):
        records = [{"value": str(number)} for number in range(10)]
        gateway.http.post(f"/v1/topics/orders/partitions/{partition}/records", json={"records": records})
    for group, offset in (("billing", 4), ("audit", 10)):
        body = {"offsets": [{"topic": "orders", "partition": 0, "offset": offset}]}
        assert gateway.http.put(f"/v1/groups/{group}/offsets", json=body).status_code == 200
    gateway.http.put(
        "/v1/groups/elsewhere/offsets", json={"offsets": [{"topic": "other", "partition": 0, "offset": 0}]}
    )


def test_topics_are_listed_with_their_readers(tab: Tab) -> None:
    """Records, lag and readers stand beside each; a search and the choice of the unread ones narrow the list."""
    page = tab.open("/topics")
    _, name, partitions, records, *_, lag, readers, retention, _, mode = row(page, "orders")
    assert (name, partitions, records, lag, retention, mode) == ("orders", "3", "30", "6", "7 d", "own")
    assert readers == "billing, audit"
    assert row(page, "unread")[7] == "none"
    orders = page.get_by_role("row", name="orders")
    expect(orders.get_by_role("img", name="30 records in the last hour")).to_be_visible()
    page.get_by_label("Activity").select_option("day")
    expect(orders.get_by_role("img", name="30 records in the last day")).to_be_visible()
    page.get_by_label("Filter").select_option("none")
    expect(page.get_by_role("rowheader", name="orders")).to_have_count(0)
    expect(page.get_by_role("rowheader", name="unread", exact=True)).to_be_visible()
    page.get_by_label("Filter").select_option("by")
    page.get_by_label("Group").fill("billing")
    expect(page.get_by_role("rowheader")).to_have_text(["orders"])
    page.get_by_label("Filter").select_option("")
    page.keyboard.press("Escape")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("/")
    page.keyboard.type("RDER")
    expect(page.get_by_role("rowheader")).to_have_text(["orders"])
    page.get_by_role("searchbox").fill("nothing like it")
    expect(page.get_by_text("No matching topics")).to_be_visible()


def test_a_topic_is_made_altered_emptied_and_deleted(console: Console, gateway: GatewayProcess) -> None:
    """Each change is made once it is confirmed, and a refusal stands beside what was typed."""
    console.visits.expect(400)
    page = console.open("/topics")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("no good")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("INVALID_TOPIC_NAME")
    dialog.get_by_label("Name").fill("fresh")
    dialog.get_by_label("Partitions").fill("2")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("fresh")
    settled(page)
    assert gateway.http.get("/v1/topics/fresh").json()["partition_count"] == 2
    gateway.http.post("/v1/topics/fresh/records", json={"records": [{"value": "1"}] * 5})
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("flush.bytes").fill("4 MiB")
    page.get_by_label("compression.type").select_option("lz4")
    page.get_by_label("flush.ms").fill("5 fortnights")
    page.get_by_role("button", name="Save", exact=True).click()
    refusal = page.get_by_role("alert")
    expect(refusal).to_contain_text("flush.ms")
    assert refusal.inner_text().count("flush.ms") == 1, "told once"
    assert gateway.http.get("/v1/topics/fresh").json()["config"]["flush.bytes"] == 8 << 20
    page.get_by_label("flush.ms").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    done(page, "Settings changed")
    expect(page.get_by_label("flush.ms")).to_have_value("250")
    expect(page.get_by_text("4 MiB; default 8388608, changed")).to_be_visible()
    page.get_by_label("retention.ms", exact=True).fill("1d12h")
    page.get_by_label("Partitions").fill("3")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(dialog).to_contain_text("Records older than 1.5 d are deleted.")
    expect(dialog).to_contain_text("Most keys move to another partition")
    assert gateway.http.get("/v1/topics/fresh").json()["config"]["retention.ms"] == 604800000
    dialog.get_by_role("button", name="Change").click()
    done(page, "Settings changed")
    assert gateway.http.get("/v1/topics/fresh").json()["partition_count"] == 3
    config = gateway.http.get("/v1/topics/fresh").json()["config"]
    assert (config["retention.ms"], config["flush.bytes"]) == (129_600_000, 4 << 20)
    assert config["compression.type"] == "lz4"
    page.get_by_role("button", name="Empty…").click()
    dialog.get_by_label("Name of the topic").fill("fresh")
    dialog.get_by_role("button", name="Empty").click()
    done(page, "is empty")
    parts = gateway.http.get("/v1/topics/fresh").json()["partitions"]
    assert sum(part["high_watermark"] - part["log_start_offset"] for part in parts) == 0
    page.get_by_role("button", name="Delete…").click()
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Name of the topic").fill("fres")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Name of the topic").fill("fresh")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    assert gateway.http.get("/v1/topics/fresh").status_code == 404


def test_the_present_version_is_pinned_and_unpinned(console: Console, gateway: GatewayProcess) -> None:
    """The pin is listed with its expiry; a topic with pins says so before it is deleted, and is deleted with them."""
    gateway.topic("pinned")
    page = console.open("/topics/pinned?tab=storage")
    for name, days in (("before-migration", "30"), ("for-ever", "")):
        page.get_by_label("Name of the pin").fill(name)
        page.get_by_label("Days").fill(days)
        page.get_by_role("button", name="Pin the current version").click()
        done(page, f"is pinned as {name}")
        expect(page.get_by_role("region", name="Pinned versions", exact=True).get_by_text(name)).to_be_visible()
    pins = {pin["name"]: pin for pin in gateway.http.get("/v1/topics/pinned/pins").json()["pins"]}
    lasts_ms = pins["before-migration"]["expires_at"] - pins["before-migration"]["created_at"]
    assert abs(lasts_ms - 30 * 86_400_000) < 60_000
    assert pins["for-ever"]["expires_at"] is None
    page.get_by_role("button", name="Unpin…").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the pin").fill("before-migration")
    dialog.get_by_role("button", name="Unpin").click()
    done(page, "is deleted")
    assert [pin["name"] for pin in gateway.http.get("/v1/topics/pinned/pins").json()["pins"]] == ["for-ever"]
    page.get_by_role("button", name="Delete…").click()
    expect(dialog).to_contain_text("1 pinned version")
    dialog.get_by_label("Name of the topic").fill("pinned")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    assert gateway.http.get("/v1/topics/pinned").status_code == 404


def test_a_person_is_erased(console: Console, gateway: GatewayProcess) -> None:
    """The request names keys and headers; the list says how far it is. A refusal stands beside what was typed."""
    console.visits.expect(400)
    gateway.topic("personal")
    gateway.http.post("/v1/topics/personal/records", json={"records": [{"key": "user-7", "value": "v"}]})
    page = console.open("/topics/personal?tab=storage")
    expect(page.get_by_text("No requests to erase")).to_be_visible()
    page.get_by_role("button", name="Erase personal data…").click()
    dialog = page.get_by_role("dialog", name="Erase personal data")
    dialog.get_by_label("Name of the topic").fill("personal")
    dialog.get_by_role("button", name="Erase").click()
    expect(dialog.get_by_role("alert")).to_contain_text("INVALID")
    dialog.get_by_label("Condition").fill("data.customer = 7")
    dialog.get_by_role("button", name="Erase").click()
    expect(dialog.get_by_role("alert")).to_contain_text("data.customer")
    dialog.get_by_label("Condition").fill("")
    dialog.get_by_label("Keys").fill("user-7\nuser-8\n")
    dialog.get_by_label("Headers").fill("user: 7")
    dialog.get_by_role("button", name="Erase").click()
    done(page, "The erasure is requested")
    (made,) = gateway.http.get("/v1/topics/personal/erasures").json()["erasures"]
    assert (made["keys"], made["headers"], made["status"]) == (2, 1, "requested")
    expect(page.get_by_role("region", name="Erasures", exact=True).last).to_contain_text("2 keys, 1 header")


def test_a_topic_is_cloned(console: Console, gateway: GatewayProcess) -> None:
    """Now, or as it was when a version was pinned."""
    gateway.topic("source")
    gateway.produce("source", "before", partition=0)
    assert gateway.http.post("/v1/topics/source/pins", json={"name": "early"}).status_code == 201
    gateway.produce("source", "after", partition=0)
    for version, name, expected in (("now", "source-now", 2), ("pin early", "source-early", 1)):
        page = console.open("/topics/source?tab=storage")
        page.get_by_role("button", name="Clone…").click()
        dialog = page.get_by_role("dialog", name="Clone topic")
        dialog.get_by_label("Name").fill(name)
        dialog.get_by_label("Version").select_option(version)
        dialog.get_by_role("button", name="Clone").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        (partition,) = gateway.http.get(f"/v1/topics/{name}").json()["partitions"]
        assert partition["high_watermark"] == expected


def test_a_topic_tells_what_its_clones_store(console: Console, gateway: GatewayProcess) -> None:
    """Bytes that it has, too, that only the clone keeps, and that were written for the clone; on a phone as on a desk."""
    longest = "c" * 249
    gateway.topic("cloned")
    gateway.produce("cloned", "first", partition=0)
    assert gateway.http.post("/v1/topics/cloned:clone", json={"name": longest}).status_code == 201
    gateway.produce("cloned", "second", partition=0)
    assert gateway.http.post("/v1/topics/cloned:clone", json={"name": "cloned-later"}).status_code == 201
    gateway.produce(longest, "own", partition=0)
    deleted = {"before": [{"partition": 0, "offset": 1}]}
    assert gateway.http.post("/v1/topics/cloned:delete-records", json=deleted).status_code == 200
    clones = gateway.http.get("/v1/topics/cloned/clones").json()["clones"]
    members = ("size_bytes", "also_in_source_bytes", "only_in_clone_bytes", "own_bytes")
    stored = {one["name"]: [one[member] for member in members] for one in clones}
    assert [[each > 0 for each in one] for one in stored.values()] == [
        [True, False, True, True],
        [True, True, True, False],
    ]
    page = console.open("/topics/cloned?tab=storage")
    for name, sizes in stored.items():
        assert row(page, name) == [name, *(f"{size / 1024:.2f} KiB" if size else "0 B" for size in sizes)]
    assert faults_on_screens(page, 320, 1280) == []
    page.get_by_role("region", name="Clones", exact=True).last.get_by_role("link", name="cloned-later").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("cloned-later")


def test_a_topic_tells_all_of_itself(tab: Tab) -> None:
    """The groups that read it and those that do not, partitions, segments, settings with defaults, cost."""
    page = tab.open("/topics/orders")
    assert row(page, "billing") == ["billing", "0", "6"]
    page.get_by_text("1 group does not read it").click()
    expect(page.get_by_role("link", name="elsewhere")).to_be_visible()
    second = page.get_by_role("region", name="Partitions").get_by_role("row", name="1 0 10")
    expect(second).to_be_visible()
    expect(page.locator(".figures")).to_contain_text("commits at the current rate $0.00", timeout=15_000)
    page = tab.open("/topics/orders?tab=storage")
    expect(page.get_by_role("region", name="Segments", exact=True)).to_contain_text("0 – 9")
    commits = page.get_by_role("region", name="Commits", exact=True)
    expect(commits.locator("tbody tr")).to_have_count(4)
    newest = commits.locator("tbody tr").first.inner_text().split("\t")
    assert (newest[0].strip(), newest[3].partition("/")[0], newest[4], newest[5]) == (
        "3",
        "tidelog-gateway",
        "10",
        "+1 −0",
    )
    page = tab.open("/topics/orders?tab=settings")
    expect(page.get_by_label("retention.ms", exact=True)).to_have_value("604800000")
    expect(page.get_by_text("7 d; default 604800000")).to_be_visible()


def test_a_topic_that_is_not_there(console: Console) -> None:
    """The page says so, and its address is one that any name has."""
    console.visits.expect(400, 404)
    page = console.open("/topics/nothing%2Flike%20it")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    expect(page.get_by_role("heading", level=1)).to_have_text("nothing/like it")


@pytest.mark.parametrize("route", ["/", "/topics", "/topics/orders", "/topics/unread"])
def test_pages_are_for_everyone(tab: Tab, route: str) -> None:
    """Names, structure, contrast and sizes are right on every screen, and nothing scrolls sideways."""
    page = tab.open(route, width=320)
    assert faults_on_screens(page, 320, 1280, 2560) == []


def test_rights_decide_what_is_offered(visits: Visits, secured: Secured) -> None:
    """A reader is offered no change; one without a token is asked for it, and what it may not see it is told."""
    visits.expect(401, 403)
    secured.admin.http.post("/v1/topics", json={"name": "seen"})
    secured.admin.http.post("/v1/topics", json={"name": "hidden"})
    principal, reader = secured.user()
    secured.allow(principal, "Read", "topic", "seen")
    assert reader.token is not None
    console = Tab(visits, secured.url, reader.token)
    page = console.open("/topics/seen?tab=storage")
    expect(page.get_by_role("heading", level=1)).to_have_text("seen")
    expect(page.get_by_role("button", name=re.compile("Delete…|Erase|Clone"))).to_have_count(0)
    page = console.open("/topics/seen?tab=settings")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    page = console.open("/topics/hidden")
    expect(page.get_by_role("alert").first).to_contain_text("You need the right Describe on topic hidden")
    page = console.open("/topics")
    expect(page.get_by_role("rowheader")).to_have_text(["seen"])
    stranger = visits.page(secured.url)
    stranger.goto(f"{secured.url}/#/topics")
    stranger.get_by_label("Token").fill("tl_wrong")
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_role("alert")).to_contain_text("Sign in with a valid token")
    stranger.get_by_label("Token").fill(reader.token)
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_role("rowheader")).to_have_text(["seen"])


def test_ten_thousand_topics(visits: Visits, tmp_path: Path) -> None:
    """The list is sorted, summed up, paged and searched by the gateway, and stays quick."""
    with running_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        gateway.topic("like")
        put_topics(tmp_path / "store", "like", 10_000)
        page = Console(visits, gateway.url).open("/topics")
        expect(page.get_by_role("rowheader")).to_have_count(100)
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("rowheader", name="sensor-00150")).to_be_visible()
        page.get_by_role("button", name="Back").click()
        expect(page.get_by_role("rowheader", name="sensor-00050")).to_be_visible()
        page.get_by_label("Page", exact=False).last.fill("101")
        page.get_by_label("Page", exact=False).last.press("Enter")
        expect(page.get_by_role("rowheader")).to_have_text(["sensor-09999"])
        expect(page.locator("main").get_by_role("status")).to_contain_text("10,001 topics:")
        page.get_by_role("button", name="Partitions").click()
        expect(page).to_have_url(re.compile("sort=partitions&order=desc"))
        expect(page.get_by_role("rowheader")).to_have_count(100)
        page.get_by_role("searchbox").fill("R-0999")
        expect(page.get_by_role("rowheader")).to_have_count(10)
        page.goto("about:blank")


def chosen(page: Page, *names: str) -> Locator:
    """The bar of what is done to these topics."""
    for name in names:
        page.get_by_role("checkbox", name=f"Select {name}", exact=True).check()
    bar = page.get_by_role("group", name="Selected topics")
    expect(bar).to_contain_text(f"{len(names)} topics selected")
    return bar


def test_several_topics_are_changed_and_deleted(console: Console, gateway: GatewayProcess) -> None:
    """What is lost is said before; what fails is told with its reason and stays chosen, and the others are done."""
    console.visits.expect(404)
    names = [f"many-{number}" for number in range(3)]
    for name in names:
        gateway.topic(name)
        gateway.produce(name, "v", "w", partition=0)
    page = console.open("/topics?search=many-")
    chosen(page, *names[:2]).get_by_role("button", name="Change a setting…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value").fill("1h")
    dialog.get_by_role("button", name="Change", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("many-1: Records older than 1 h are deleted.")
    configs = [gateway.http.get(f"/v1/topics/{name}").json()["config"] for name in names]
    assert {config["retention.ms"] for config in configs} == {604_800_000}
    dialog.get_by_role("button", name="Change anyway").click()
    done(page, "retention.ms is changed in 2 topics")
    configs = [gateway.http.get(f"/v1/topics/{name}").json()["config"] for name in names]
    assert [config["retention.ms"] for config in configs] == [3_600_000, 3_600_000, 604_800_000]
    chosen(page, *names).get_by_role("button", name="Delete…").click()
    expect(dialog).to_contain_text("All of their 6 records")
    expect(dialog).to_contain_text("many-2: 2 records")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    gateway.http.delete("/v1/topics/many-1")
    dialog.get_by_label("Confirmation").fill("3 topics")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text("2 of 3 topics are done. many-1:")
    assert [gateway.http.get(f"/v1/topics/{name}").status_code for name in names] == [404] * 3
    page.keyboard.press("Escape")
    expect(page.get_by_text("1 topic selected")).to_be_visible()


def test_a_topic_names_its_queues(tab: Tab, gateway: GatewayProcess) -> None:
    """They read it as groups do."""
    assert gateway.http.put("/v1/queues/mails", json={"topics": ["orders"]}).status_code == 201
    page = tab.open("/topics/orders")
    page.get_by_role("link", name="mails").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("mails")


def test_defaults_are_the_gateways() -> None:
    """What the console shows as a setting's default, and offers as its values."""
    source = Path(__file__).parents[2].joinpath("gateway/console/static/topic.js").read_text()
    listed = dict(re.findall(r'"([\w.]+)": ("?[\w-]+"?)', source[source.index("DEFAULTS") :]))
    assert len(listed) > 10
    for name, default in listed.items():
        assert default.strip('"') == str(SETTINGS[name].default), name
    offered = dict(re.findall(r'"([\w.]+)": (\[.*?\])', source))
    choices = {name: setting.choices for name, setting in SETTINGS.items() if isinstance(setting, ChoiceSetting)}
    assert {name: tuple(json.loads(words)) for name, words in offered.items()} == choices


def test_a_damaged_topic_is_shown_with_what_to_type(visits: Visits, tmp_path: Path) -> None:
    """Above the others, with the cause and the command."""
    with running_gateway(tmp_path / "store", tmp_path / "1.log") as first:
        first.topic("hurt")
        first.topic("sound")
        assert first.http.patch("/v1/topics/hurt", json={"partition_count": 2}).status_code == 200
    (tmp_path / "store" / "topics" / "hurt" / "_delta_log" / f"{0:020d}.json").unlink()
    with running_gateway(tmp_path / "store", tmp_path / "2.log") as gateway:
        page = Console(visits, gateway.url).open("/topics")
        warning = page.get_by_role("alert")
        expect(warning).to_contain_text("hurt is damaged")
        expect(warning).to_contain_text("lacks version 0")
        expect(warning.get_by_role("code")).to_have_text("tidelog doctor --store STORE --repair hurt")
        expect(page.get_by_role("rowheader")).to_have_text(["sound"])
