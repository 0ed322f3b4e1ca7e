"""The page of messages: records found, filtered, shown as what they are, produced, followed and taken along."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from tests.support.accessibility import faults, faults_on_screens, overflow
from tests.support.console import Console, Tab
from tests.support.gateway_process import GatewayProcess

MARKUP = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\u202egnp'
HOSTILE: list[dict[str, Any]] = [
    {"key": MARKUP, "value": MARKUP, "headers": [{"key": "<b>h</b>", "value": MARKUP}]},
    {"value": None, "key": "tombstone"},
    {"value_base64": "/////wABAgM=", "key_base64": "/w=="},
    {"value": "a" * 1_000_000},
    {"value": '{"big":12345678901234567890123,"a":[],"b":{},"twice":1,"twice":2,"s":"a\\"{[,:]}"}'},
    {"value": "javascript:alert(1)\u0000\u0007\u001b[31m"},
]


@pytest.fixture(scope="module", autouse=True)
def topics(gateway: GatewayProcess) -> None:
    """``orders`` has 250 records a second apart in one partition; ``hostile`` what hurts; ``empty`` nothing; ``spread`` three."""
    gateway.topic("orders", retention_ms=-1)
    records = [
        {"key": f"k-{number % 5}", "value": json.dumps({"n": number}), "timestamp": 1_700_000_000_000 + 1000 * number,
         "headers": {"kind": "even" if number % 2 == 0 else "odd"}}
        for number in range(250)
    ]  # fmt: skip
    assert gateway.http.post("/v1/topics/orders/records", json={"records": records}).status_code == 200
    gateway.topic("hostile")
    assert gateway.http.post("/v1/topics/hostile/records", json={"records": HOSTILE}).status_code == 200
    gateway.topic("empty")
    gateway.topic("spread", 3)
    for partition in range(3):
        gateway.http.post(f"/v1/topics/spread/partitions/{partition}/records", json={"records": [{"value": "v"}] * 4})


def offsets(page: Page) -> list[str]:
    return page.get_by_role("rowheader").all_inner_texts()


def test_the_newest_are_shown_first(tab: Tab) -> None:
    """A hundred of them, and older ones behind them, down to the first."""
    page = tab.open("/topics/orders/messages")
    assert offsets(page) == [f"0:{number}" for number in range(249, 149, -1)]
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_role("rowheader").first).to_have_text("0:149")
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_role("rowheader").first).to_have_text("0:49")
    assert offsets(page)[-1] == "0:0"
    expect(page.get_by_role("button", name="Older")).to_have_count(0)
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("rowheader").first).to_have_text("0:149")


def test_records_are_found(console: Console) -> None:
    """By offset, time, key, header and a part of the value; the question stays in the address."""
    page = console.open("/topics/orders/messages?from=earliest")
    assert offsets(page)[:2] == ["0:0", "0:1"]
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("rowheader").first).to_have_text("0:100")
    page.get_by_label("From").select_option("offset")
    page.get_by_label("Offset").fill("240")
    page.keyboard.press("Enter")
    expect(page.get_by_role("rowheader")).to_have_text([f"0:{number}" for number in range(240, 250)])
    page.get_by_label("From").select_option("time")
    page.get_by_label("Time").fill("2023-11-14T22:17:00")
    page.keyboard.press("Enter")
    expect(page.get_by_role("rowheader").first).to_have_text("0:220")
    page.get_by_label("From").select_option("earliest")
    page.get_by_label("Key").fill("k-3")
    page.get_by_label("Header").fill("kind:odd")
    page.get_by_label("Value contains").fill("13}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("rowheader")).to_have_text(["0:13", "0:113", "0:213"])
    page.reload()
    expect(page.get_by_role("rowheader")).to_have_text(["0:13", "0:113", "0:213"])
    page.get_by_label("Value contains").fill("nowhere")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No messages")).to_be_visible()


def test_older_ones_of_several_partitions_lack_none(tab: Tab, gateway: GatewayProcess) -> None:
    """Page by page down to the first record of each, however uneven the partitions are."""
    gateway.topic("uneven", 3)
    for partition, count in enumerate((260, 5, 90)):
        gateway.produce("uneven", *map(str, range(count)), partition=partition)
    page = tab.open("/topics/uneven/messages")
    seen = offsets(page)
    while page.get_by_role("button", name="Older").count():
        before = page.get_by_role("rowheader").first.inner_text()
        page.get_by_role("button", name="Older").click()
        expect(page.get_by_role("rowheader").first).not_to_have_text(before)
        seen += offsets(page)
    assert len(seen) == len(set(seen)) == 355


def test_a_question_is_asked_as_people_do(tab: Tab) -> None:
    """A filter looks behind the newest hundred; a header goes by its name; -5 is the last five; a wrong partition is named."""
    page = tab.open("/topics/orders/messages?key=k-3&header=kind")
    assert offsets(page) == [f"0:{number}" for number in range(248, 0, -5)]
    page = tab.open("/topics/orders/messages?from=offset&offset=-5")
    assert offsets(page) == [f"0:{number}" for number in range(245, 250)]
    page = tab.open("/topics/spread/messages?from=offset&offset=-2")
    assert sorted(offsets(page)) == [f"{partition}:{offset}" for partition in range(3) for offset in (2, 3)]
    page = tab.open("/topics/spread/messages?from=offset&offset=9")
    expect(page.get_by_text("None of the messages searched matches. Older ones were not searched.")).to_be_visible()
    page = tab.open("/topics/spread/messages?partition=3")
    expect(page.get_by_role("alert")).to_contain_text("spread has partitions 0 to 2.")


def test_all_partitions_are_shown(tab: Tab) -> None:
    """In one list; and none without records."""
    page = tab.open("/topics/spread/messages")
    assert sorted(offsets(page)) == [f"{partition}:{offset}" for partition in range(3) for offset in range(4)]
    empty = tab.open("/topics/empty/messages")
    expect(empty.get_by_text("No messages")).to_be_visible()


def test_hostile_values_are_text(tab: Tab) -> None:
    """Markup stays markup, large values are cut, bytes are shown as such, numbers keep their digits."""
    page = tab.open("/topics/hostile/messages")
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script, main b").count() == 0
    for place, text in (("0:0", "<script>window.hit=1</script>"), ("0:2", "0xffffffff00010203")):
        shown = page.get_by_role("row").filter(has=page.get_by_role("button", name=place, exact=True))
        expect(shown).to_contain_text(text)
    assert overflow(page) == []

    def value(offset: int, form: str | None = None) -> str:
        page.get_by_role("button", name=f"0:{offset}", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("dl")).to_be_visible()
        if form is not None:
            dialog.get_by_role("button", name=form).click()
        text = dialog.locator("pre").inner_text() if dialog.locator("pre").count() else dialog.inner_text()
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)
        return text

    assert value(0) == MARKUP.replace("\u202e", "\\u202e")
    assert "tombstone" in value(1)
    assert value(2).startswith("00000000  ff ff ff ff 00 01 02 03")
    assert len(value(3)) == 200_000
    assert '"big": 12345678901234567890123,' in value(4)
    assert value(4).count('"twice"') == 2
    assert value(4, "Text") == HOSTILE[4]["value"]
    assert "1b 5b 33 31 6d" in value(5, "Hex")
    assert page.evaluate("window.hit") is None


def test_a_record_is_produced(tab: Tab, gateway: GatewayProcess) -> None:
    """With key, headers and value as they were typed; and a tombstone."""
    gateway.topic("made")
    page = tab.open("/topics/made/messages")
    page.get_by_role("button", name="Produce…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key").fill("k")
    dialog.get_by_label("Value", exact=True).fill('{"a": 1}')
    dialog.get_by_label("Headers").fill("no colon")
    dialog.get_by_role("button", name="Produce").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not no colon")
    dialog.get_by_label("Headers").fill("trace: a:b\nkind: x")
    dialog.get_by_role("button", name="Produce").click()
    expect(page.locator(".toasts")).to_contain_text("offset 0")
    expect(page.locator("main tbody tr")).to_have_count(1)
    dialog.get_by_label("Tombstone").check()
    dialog.get_by_role("button", name="Produce").click()
    expect(page.locator(".toasts")).to_contain_text("offset 1")
    first, second = gateway.http.get("/v1/topics/made/partitions/0/records?offset=0").json()["records"]
    assert (first["key"], first["value"]) == ("k", '{"a": 1}')
    assert first["headers"] == [{"key": "trace", "value": "a:b"}, {"key": "kind", "value": "x"}]
    assert second["value"] is None


def test_a_thousand_a_second_are_followed(console: Console, gateway: GatewayProcess) -> None:
    """For five seconds, of one partition and of three: every record is received, and none twice."""
    for topic, partition_count in (("busy", 1), ("busy-3", 3)):
        gateway.topic(topic, partition_count)
        page = console.open(f"/topics/{topic}/messages?live=1")
        expect(page.get_by_text("Waiting for messages")).to_be_visible()
        page.wait_for_timeout(500)
        errors: list[int] = []
        sender = threading.Thread(target=_send, args=(gateway.url, topic, errors))
        sender.start()
        while sender.is_alive():
            page.wait_for_timeout(200)
        assert errors == []
        expect(page.get_by_text("5,000 received")).to_be_visible()
        page.wait_for_timeout(500)
        expect(page.get_by_text("5,000 received, the newest 500 shown")).to_be_visible()


def _send(url: str, topic: str, errors: list[int]) -> None:
    """A thousand records a second for five seconds, in requests of a hundred."""
    with httpx.Client(base_url=url) as http:
        began = time.monotonic()
        for number in range(50):
            answer = http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": "x" * 100}] * 100})
            if answer.status_code != 200:
                errors.append(answer.status_code)
            time.sleep(max(0.0, began + 0.1 * (number + 1) - time.monotonic()))


def test_live_can_be_stopped_without_a_loss(console: Console, gateway: GatewayProcess) -> None:
    """What comes while it is paused comes when it goes on; a filter holds for it, too."""
    gateway.topic("paused")
    page = console.open("/topics/paused/messages?live=1&text=yes")
    expect(page.get_by_text("Waiting for messages")).to_be_visible()
    page.wait_for_timeout(500)
    gateway.produce("paused", "yes 1", "no")
    expect(page.get_by_text("1 received")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    gateway.produce("paused", "yes 2", "yes 3")
    page.wait_for_timeout(500)
    expect(page.get_by_text("1 received")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("3 received")).to_be_visible()
    assert offsets(page) == ["0:3", "0:2", "0:0"]


def test_records_are_taken_along(console: Console, tmp_path: Path) -> None:
    """Downloads have what is shown, and what is copied runs: by the shell, the command line and the SDK."""
    page = console.open("/topics/orders/messages?from=offset&offset=245&partition=0&key=k-3&header=kind:even")
    assert offsets(page) == ["0:248"]
    page.get_by_role("button", name="Copy or download…").click()
    dialog = page.get_by_role("dialog")
    assert faults(page) == []
    with page.expect_download() as saving:
        dialog.get_by_role("button", name="NDJSON").click()
    saving.value.save_as(tmp_path / "records.ndjson")
    assert [json.loads(line)["offset"] for line in (tmp_path / "records.ndjson").read_text().splitlines()] == [248]
    with page.expect_download() as saving:
        dialog.get_by_role("button", name="Arrow").click()
    saving.value.save_as(tmp_path / "records.arrows")
    assert pa.ipc.open_stream(tmp_path / "records.arrows").read_all().column("offset").to_pylist() == [248]
    with page.expect_download() as saving:
        dialog.get_by_role("button", name="Parquet").click()
    saving.value.save_as(tmp_path / "records.parquet")
    assert pq.read_table(tmp_path / "records.parquet").column("offset").to_pylist() == [248]
    dialog.get_by_role("button", name="Copy").first.click()
    expect(page.locator(".toasts")).to_contain_text("Copied")
    curl, line, python = (block.inner_text() for block in dialog.locator("pre").all())
    assert page.evaluate("navigator.clipboard.readText()") == curl
    found = json.loads(subprocess.check_output([*shlex.split(curl), "-s"], text=True))
    assert [record["offset"] for record in found["records"]] == [248]
    program = [str(Path(sys.executable).with_name("tidelog")), *shlex.split(line)[1:]]
    assert json.loads(subprocess.check_output(program, text=True)) == {"n": 248}
    told = subprocess.check_output([sys.executable, "-c", python], text=True).splitlines()
    assert [line.split(" b")[0] for line in told] == ["0 248"]


@pytest.mark.parametrize(
    ("question", "first"),
    [("?text=24", "0:24"), ("?from=time&time=2023-11-14T22:17", "0:220"), ("?from=offset&offset=-3", "0:247")],
)
def test_what_is_copied_begins_where_the_page_does(tab: Tab, question: str, first: str) -> None:
    """Whichever way the page was asked: all three programs find the records that it shows."""
    page = tab.open(f"/topics/orders/messages{question}")
    shown = sorted(offsets(page), key=lambda place: int(place[2:]))
    assert shown[0] == first
    page.get_by_role("button", name="Copy or download…").click()
    texts = page.get_by_role("dialog").locator("pre")
    expect(texts).to_have_count(3)
    curl, line, python = texts.all_inner_texts()
    found = json.loads(subprocess.check_output([*shlex.split(curl), "-s"], text=True))
    assert [f"0:{record['offset']}" for record in found["records"]] == shown
    program = Path(sys.executable).with_name("tidelog")
    told = subprocess.check_output(["bash", "-c", line.replace("tidelog", str(program), 1)], text=True).splitlines()
    assert [f"0:{json.loads(record)['n']}" for record in told] == shown
    told = subprocess.check_output([sys.executable, "-c", python], text=True).splitlines()
    assert [record.replace(" ", ":", 1).split(" ")[0] for record in told] == shown


def test_a_download_ends_where_it_was_told(tab: Tab, gateway: GatewayProcess, tmp_path: Path) -> None:
    """Before an offset or a time: records up to there and none behind, also where a filter leaves gaps."""
    page = tab.open("/topics/orders/messages?from=offset&offset=240&partition=0")
    page.get_by_role("button", name="Copy or download…").click()
    dialog = page.get_by_role("dialog")

    def saved(kind: str) -> list[int]:
        with page.expect_download() as saving:
            dialog.get_by_role("button", name=kind).click()
        saving.value.save_as(tmp_path / kind)
        if kind == "Arrow":
            column: list[int] = pa.ipc.open_stream(tmp_path / kind).read_all().column("offset").to_pylist()
            return column
        return [json.loads(line)["offset"] for line in (tmp_path / kind).read_text().splitlines()]

    def until(kind: str, at: str) -> None:
        dialog.get_by_label("Until").select_option(kind)
        dialog.get_by_label("Exclusive end").fill(at)
        dialog.get_by_label("Exclusive end").blur()

    assert max(saved("NDJSON")) > 245
    until("offset", "245")
    assert saved("NDJSON") == saved("Arrow") == [240, 241, 242, 243, 244]
    records = gateway.http.get("/v1/topics/orders/partitions/0/records?offset=240&max_records=10").json()["records"]
    moment = records[6]["timestamp"] // 1000 * 1000
    until("time", datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    assert saved("NDJSON") == [one["offset"] for one in records if one["timestamp"] < moment]
    dialog.get_by_role("button", name="Close").click()
    page = tab.open("/topics/orders/messages?from=offset&offset=230&partition=0&key=k-3")
    page.get_by_role("button", name="Copy or download…").click()
    dialog = page.get_by_role("dialog")
    every = saved("NDJSON")
    assert len(every) > 1
    until("offset", str(every[-1]))
    assert saved("NDJSON") == saved("Arrow") == every[:-1]
    until("offset", str(every[0]))
    dialog.get_by_role("button", name="NDJSON").click()
    expect(dialog.get_by_role("alert")).to_contain_text("There is no record before this end.")


@pytest.mark.parametrize(
    "route",
    [
        "/topics/orders/messages",
        "/topics/hostile/messages?from=time&time=2023-11-14T22:17",
        "/topics/empty/messages?live=1",
    ],
)
def test_the_page_is_for_everyone(console: Console, route: str) -> None:
    """Names, structure, contrast and sizes are right on every screen, and nothing scrolls sideways."""
    page = console.open(route)
    assert faults_on_screens(page, 320, 1280, 2560) == []


def test_what_fails_is_told(console: Console) -> None:
    """An offset beyond the log's end, and a topic that is not there."""
    console.visits.expect(404)
    page = console.open("/topics/orders/messages?from=offset&offset=99999&partition=0")
    expect(page.get_by_role("alert")).to_contain_text("OFFSET_OUT_OF_RANGE")
    missing = console.open("/topics/missing/messages")
    expect(missing.get_by_role("alert")).to_contain_text("Not found")
