"""Questions in SQL on the console: where they are offered, what an answer looks like, and errors in words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.accessibility import faults, faults_on_screens, overflow
from tests.support.browser import Visits
from tests.support.console import Console, Tab
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.secured import Secured

MARKUP = "<img src=x onerror=alert(1)><script>alert(1)</script>"


@pytest.fixture(scope="module", autouse=True)
def data(gateway: GatewayProcess) -> None:
    """Three hundred records in three partitions, and one of markup."""
    gateway.topic("orders", 3)
    gateway.topic("odd.name")
    for partition in range(3):
        gateway.produce("orders", *(json.dumps({"n": number}) for number in range(100)), partition=partition)
    gateway.produce("odd.name", MARKUP)


def run(page: Page, sql: str) -> None:
    page.get_by_label("Statement").fill(sql)
    page.get_by_label("Statement").press("Control+Enter")


def cells(page: Page) -> list[list[str]]:
    """Of the answer, as soon as it is there."""
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    rows: list[Locator] = page.locator("main tbody tr").all()
    return [[text.strip() for text in row.locator("th, td").all_inner_texts()] for row in rows]


def test_a_question_is_asked_and_answered(tab: Tab) -> None:
    """By the button and by the keyboard; how much was read stands beside it. What was typed stays."""
    page = tab.open("/sql")
    sql = "select partition, count(*), max((value->>'n')::int) from orders group by 1 order by 1"
    page.get_by_label("Statement").fill(sql)
    page.get_by_role("button", name="Run").click()
    assert cells(page) == [["0", "100", "99"], ["1", "100", "99"], ["2", "100", "99"]]
    expect(page.get_by_role("status").filter(has_text="orders")).to_have_text(
        "orders: all of its 300 records read, 2.61 KiB"
    )
    expect(page.get_by_label("Statement")).to_have_value(sql)
    assert faults(page) + overflow(page) == []
    run(page, "select count(*) from orders a, orders b")
    expect(page.locator("main tbody")).to_have_text("90000")


def test_values_are_text_with_all_their_digits(tab: Tab) -> None:
    """Markup stays text, null is told from a text, numbers are not rounded, and what is nested is JSON."""
    page = tab.open("/sql")
    run(
        page,
        """select value, null, 'null', 9007199254740993, 1e300, [1, 2], {'a': 12345678901234567890}, '' from "odd.name\"""",
    )
    nested = '{"a":12345678901234567890}'
    assert cells(page) == [[MARKUP, "null", "null", "9007199254740993", "1e300", "[1,2]", nested, ""]]
    assert page.locator("main td .tag").count() == 1


def test_tables_and_columns_are_beside_the_editor(tab: Tab) -> None:
    """A click puts a name where the cursor is, quoted where SQL needs that."""
    page = tab.open("/sql")
    editor = page.get_by_label("Statement")
    editor.fill("select  from ")
    page.get_by_role("button", name="odd.name", exact=True).click()
    page.get_by_role("button", name="Columns of odd.name").click()
    editor.evaluate("area => area.setSelectionRange(7, 7)")
    page.get_by_role("button", name='"offset"').click()
    expect(editor).to_have_value('select "offset" from "odd.name"')
    expect(editor).to_be_focused()
    page.keyboard.press("Control+Enter")
    assert cells(page) == [["0"]]
    assert faults(page) + overflow(page) == []
    page.get_by_label("Search").fill("ORD")
    expect(page.get_by_role("button", name=re.compile("^Columns of"))).to_have_count(1)


def test_statements_are_remembered_here_until_they_are_cleared(console: Console) -> None:
    """The newest first, each once, also those that failed; another visit has them, and only this browser."""
    console.visits.expect(400)
    page = console.open("/sql")
    for sql in ("select 1 as one from orders limit 1", MARKUP, "select 1 as one from orders limit 1"):
        run(page, sql)
        expect(page.get_by_role("button", name="Run")).to_be_enabled()
        expect(page.get_by_role("alert" if sql == MARKUP else "table")).to_be_visible()
    page.reload()
    page.get_by_text("History", exact=True).click()
    past = page.locator("details li")
    expect(past).to_have_text(["select 1 as one from orders limit 1", MARKUP])
    past.last.get_by_role("button").click()
    expect(page.get_by_label("Statement")).to_have_value(MARKUP)
    page.get_by_role("button", name="Clear the history").click()
    expect(past).to_have_count(0)
    assert page.evaluate("localStorage['tidelog.sql']") == "[]"


def test_a_statement_is_cancelled(console: Console, gateway: GatewayProcess) -> None:
    """At the gateway, too: the next one does not wait for it."""
    page = console.open("/sql")
    run(page, "select count(*) from range(10000000) a, range(10000000) b, orders")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".toasts")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    run(page, "select count(*) from orders")
    assert cells(page) == [["300"]]


def test_rows_are_saved_as_csv_and_parquet(tab: Tab) -> None:
    """Quoted where they must be; null is told from an empty text."""
    page = tab.open("/sql")
    run(page, """select 'a,"b"' as x, null as y, '' as z, 9007199254740993 as n from "odd.name\"""")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as CSV").click()
    assert saving.value.suggested_filename == "result.csv"
    with page.expect_download() as file:
        page.get_by_role("button", name="Save as Parquet").click()
    table = pq.read_table(file.value.path())
    assert table.to_pylist() == [{"x": 'a,"b"', "y": None, "z": "", "n": 9007199254740993}]
    assert Path(saving.value.path()).read_bytes() == b'x,y,z,n\r\n"a,""b""",,"",9007199254740993'


def test_many_rows_come_in_parts_and_long_values_are_cut(tab: Tab) -> None:
    """A thousand rows, a hundred at a time, and word of those that were not sent."""
    page = tab.open("/sql")
    run(page, "select a.\"offset\", repeat('x', 5000) as long, b.* from orders a, orders b limit 150")
    assert len(cells(page)) == 100
    assert len(page.locator("main tbody td").first.inner_text().strip()) == 2_001
    run(page, "select a.value from orders a, orders b")
    expect(page.get_by_text("1,000 rows, and more not sent")).to_be_visible()
    page.set_viewport_size({"width": 320, "height": 640})
    assert overflow(page) == []


def test_what_is_wrong_is_said(console: Console) -> None:
    """In the words of DuckDB, or the gateway's; the answer before is gone."""
    console.visits.expect(400, 404)
    page = console.open("/sql")
    run(page, "select 1 from orders")
    assert len(cells(page)) == 100
    for sql, said in (
        ("select nothing from orders", "Binder Error"),
        ("selec", "syntax error"),
        ("select * from nope", "'nope' does not exist"),
        ("select * from read_csv('/etc/passwd')", "table functions"),
        ("delete from orders", "Only SELECT"),
    ):
        run(page, sql)
        expect(page.get_by_role("alert")).to_contain_text(said)
        expect(page.get_by_role("heading", name="Result")).to_have_count(0)


def test_a_topic_leads_to_its_question(tab: Tab) -> None:
    """With a statement that runs as it stands, also where the name has to be quoted."""
    page = tab.open("/topics/odd.name")
    page.get_by_role("link", name="SQL", exact=True).last.click()
    expect(page.get_by_label("Statement")).to_have_value('select * from "odd.name" order by timestamp desc limit 20')
    page.get_by_role("button", name="Run").click()
    assert cells(page)[0][0] == "odd.name"


def test_it_is_offered_where_the_gateway_answers(visits: Visits, tmp_path: Path) -> None:
    """With ``sql=off`` no page leads there, and the page is not there."""
    with running_gateway(tmp_path / "store", tmp_path / "log", "--sql", "off") as started:
        started.topic("orders")
        console = Console(visits, started.url)
        for route in ("/", "/topics/orders", "/sql"):
            page = console.open(route)
            expect(page.get_by_role("link", name="SQL", exact=True)).to_have_count(0)
        expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


def test_only_who_may_read_is_led_there(visits: Visits, secured: Secured) -> None:
    """A topic that the caller may only describe does not lead to it; a question about it is refused with the right it needs."""
    visits.expect(403)
    for topic in ("mine", "theirs"):
        secured.admin.http.post("/v1/topics", json={"name": topic})
    principal, _ = secured.user()
    token = secured.token(principal)["token"]
    for topic, operation in (("mine", "Read"), ("mine", "Describe"), ("theirs", "Describe")):
        secured.allow(principal, operation, "topic", topic)
    console = Tab(visits, secured.url, token)
    expect(console.open("/topics/mine").locator("main").get_by_role("link", name="SQL")).to_have_count(1)
    expect(console.open("/topics/theirs").locator("main").get_by_role("link", name="SQL")).to_have_count(0)
    page = console.open("/sql")
    run(page, "select * from mine, theirs")
    expect(page.get_by_role("alert")).to_contain_text("You need the right Read on topic theirs.")
    run(page, "select count(*) from mine")
    assert cells(page) == [["0"]]


def coloured(page: Page) -> list[list[str]]:
    """The kind and the text of each coloured part of the statement."""
    parts = page.locator(".editor pre span")
    found: list[list[str]] = parts.evaluate_all("all => all.map(one => [one.className, one.textContent])")
    return found


def suggestions(page: Page) -> Locator:
    """What is offered where the cursor is."""
    return page.get_by_role("listbox", name="Suggestions").get_by_role("option")


def test_a_statement_has_colours_that_everyone_can_read(tab: Tab) -> None:
    """Keywords, texts, quoted names, numbers and comments; markup is text, and what is shown is what was typed, at its place."""
    page = tab.open("/sql")
    sql = f"""select 'it''s <b>', 1.5e3, "a""b" -- {MARKUP}\nFROM orders /* open"""
    page.get_by_label("Statement").fill(sql)
    assert coloured(page) == [
        ["keyword", "select"],
        ["string", "'it''s <b>'"],
        ["number", "1.5e3"],
        ["name", '"a""b"'],
        ["comment", f"-- {MARKUP}"],
        ["keyword", "FROM"],
        ["comment", "/* open"],
    ]
    below = page.locator(".editor pre")
    assert below.text_content() == f"{sql}\n"
    boxes = [page.locator(f".editor > {part}").bounding_box() for part in ("pre", "textarea")]
    assert boxes[0] == boxes[1]
    below.evaluate("element => element.removeAttribute('aria-hidden')")
    assert faults_on_screens(page, 320, 1280) == []


def test_a_long_statement_stays_in_step_with_its_colours(tab: Tab) -> None:
    """Both layers scroll together, and break lines at the same places."""
    page = tab.open("/sql")
    editor = page.get_by_label("Statement")
    editor.fill("select partition, key, value from orders where key = 'abc' and \n" * 60)
    editor.evaluate("area => { area.scrollTop = 200; }")
    page.wait_for_function("() => document.querySelector('.editor pre').scrollTop === 200")
    heights = [page.locator(f".editor > {part}").evaluate("one => one.scrollHeight") for part in ("pre", "textarea")]
    assert abs(heights[0] - heights[1]) <= 1


def test_tables_columns_and_keywords_are_completed_by_keyboard(tab: Tab) -> None:
    """Suggestions come as one types, arrow keys choose, Enter takes; a screen reader hears how many, and which is chosen."""
    page = tab.open("/sql")
    editor = page.get_by_label("Statement")
    options = suggestions(page)
    editor.press_sequentially("sel")
    expect(options).to_have_text(["select keyword"])
    expect(page.get_by_role("status").filter(has_text="suggestion")).to_have_text("1 suggestion, by the arrow keys")
    editor.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(editor).to_have_attribute("aria-activedescendant", "suggestion-0")
    assert faults_on_screens(page, 320, 1280) == []
    editor.press("Enter")
    expect(editor).to_have_value("select")
    editor.press_sequentially(" * from odd")
    expect(options).to_have_text(['"odd.name" table'])
    editor.press("ArrowDown")
    editor.press("Tab")
    expect(editor).to_have_value('select * from "odd.name"')
    editor.press_sequentially(" where par")
    expect(options).to_have_text(
        ["partition column", "partition keyword", "date_part( function", "split_part( function"]
    )
    editor.press("Escape")
    expect(options).to_have_count(0)
    editor.fill("")
    editor.press("Control+Space")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(options).to_have_count(8)


def test_keys_keep_their_meaning_where_nothing_is_chosen(tab: Tab) -> None:
    """Enter makes a line and Tab goes on, also beside suggestions; within a text or a number nothing is suggested."""
    page = tab.open("/sql")
    editor = page.get_by_label("Statement")
    editor.press_sequentially("select 1 as o")
    expect(suggestions(page).first).to_be_visible()
    editor.press("Enter")
    expect(editor).to_have_value("select 1 as o\n")
    editor.press_sequentially("from 'o")
    expect(suggestions(page)).to_have_count(0)
    editor.fill("")
    editor.press_sequentially("o")
    expect(suggestions(page).first).to_be_visible()
    editor.press("Tab")
    expect(editor).not_to_be_focused()
    expect(suggestions(page)).to_have_count(0)


def test_members_of_odd_names_are_completed_in_quotes(tab: Tab, gateway: GatewayProcess) -> None:
    """Behind their column and a dot, and what is taken is valid SQL: names with dashes, quotes and words of SQL."""
    names = {"customer-name": "integer", "order": "integer", 'a"b': "integer"}
    schema = json.dumps({"type": "object", "properties": {name: {"type": kind} for name, kind in names.items()}})
    body = {"schema": schema, "schemaType": "JSON"}
    assert gateway.http.post("/registry/subjects/quaint-value/versions", json=body).status_code == 200
    gateway.topic("quaint", value_schema="quaint-value")
    gateway.produce("quaint", json.dumps(dict.fromkeys(names, 7)))
    page = tab.open("/sql")
    editor = page.get_by_label("Statement")
    editor.fill("from quaint select ")
    for typed, offered in (
        ("data.cust", '"customer-name"'),
        (", data.ord", '"order"'),
        (", q", None),
        ("uaint.data.a", '"a""b"'),
    ):
        editor.press("End")
        editor.press_sequentially(typed)
        if offered is not None:
            expect(suggestions(page).first).to_have_text(f"{offered} column")
            editor.press("ArrowDown")
            editor.press("Enter")
    editor.press("Control+Enter")
    assert cells(page) == [["7", "7", "7"]]
