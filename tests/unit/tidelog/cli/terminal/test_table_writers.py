"""Formats of tables: the same rows as values for programs."""

from __future__ import annotations

import io
import json
import re

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tests.support.fake_gateway import FakeGateway
from tidelog.cli.app import app

EXPECTED = {
    "vertical": "     topic = orders\npartitions = 2\n   records = 1200\n     bytes = {bytes}\n",
    "csv": "topic,partitions,records,bytes\norders,2,1200,{bytes}\n",
    "tsv": "topic\tpartitions\trecords\tbytes\norders\t2\t1200\t{bytes}\n",
    "ndjson": '{{"topic":"orders","partitions":2,"records":1200,"bytes":{bytes}}}\n',
}


@pytest.fixture
def orders(gateway: FakeGateway) -> str:
    """The address of a gateway with 1,200 records in a topic of two partitions, which a group has read in part."""
    url = gateway.url
    assert run(url, "topic", "create", "orders", "-p", "2").exit_code == 0
    produced = CliRunner().invoke(app, ["produce", "orders", "--url", url], input="x\n" * 1200)
    assert produced.exit_code == 0, produced.output
    return url


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--url", url])


@pytest.mark.parametrize("format_", EXPECTED)
def test_texts(orders: str, format_: str) -> None:
    """Numbers come without separators, whatever the table shows."""
    listed = json.loads(run(orders, "topic", "list", "--json").stdout)["topics"]
    size_bytes = sum(each["size_bytes"] for each in listed[0]["partitions"])
    shown = run(orders, "topic", "list", "--format", format_).stdout
    assert shown == EXPECTED[format_].format(bytes=size_bytes)


def test_parquet(orders: str) -> None:
    """A number is a number there, and a missing one is null; a command with several tables writes none."""
    shown = run(orders, "topic", "list", "--format", "parquet")
    (row,) = pq.read_table(io.BytesIO(shown.stdout_bytes)).to_pylist()
    assert (row["topic"], row["partitions"], row["records"]) == ("orders", 2, 1200)
    refused = run(orders, "topic", "describe", "orders", "--format", "parquet")
    assert refused.exit_code == 2
    assert refused.stdout_bytes == b""
    assert "several tables" in refused.stderr


def test_only_tables_are_on_standard_output(orders: str) -> None:
    """A program reads only rows, and finds no prose beside them; people's formats have facts above the tables."""
    shown = run(orders, "topic", "describe", "orders", "--format", "ndjson")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [row["partition"] for row in rows if "partition" in row] == [0, 1]
    assert sum(row["high watermark"] for row in rows if "partition" in row) == 1200
    assert shown.stderr == ""
    for arguments in (("cluster",), ("topic", "describe", "orders")):
        for format_ in ("csv", "tsv", "ndjson", "json"):
            assert run(orders, *arguments, "--format", format_).stderr == "", arguments
        for format_ in ("table", "vertical"):
            assert re.match("(store|topic) +", run(orders, *arguments, "--format", format_).stdout), arguments


def test_json_is_the_whole_answer(orders: str) -> None:
    """``--format json`` and ``--json`` write the same."""
    shown = run(orders, "topic", "describe", "orders", "--format", "json").stdout
    assert shown == run(orders, "topic", "describe", "orders", "--json").stdout


def test_altering_shows_what_changed(orders: str) -> None:
    """Neither settings that stayed, nor partitions; more partitions for records with keys come with a warning."""
    shown = run(orders, "topic", "alter", "orders", "-c", "flush.ms=1s", "--format", "csv")
    assert shown.stdout == "setting,before,now\nflush.ms,250,1000\n"
    assert "Warning" not in shown.stderr
    shown = run(orders, "topic", "alter", "orders", "--partitions", "3", "--format", "csv")
    assert shown.stdout == "setting,before,now\npartitions,2,3\n"
    assert "another partition" in shown.stderr


def test_who_may_not_describe_may_alter(gateway: FakeGateway, orders: str) -> None:
    """Looking at what was before needs no right that the change does not need."""
    gateway.misbehave("^GET /v1/topics/orders$", gateway.refuse(403, "UNAUTHORIZED", operation="Describe"))
    shown = run(orders, "topic", "alter", "orders", "-c", "flush.ms=1s")
    assert shown.exit_code == 0, shown.output
    assert "1000" in shown.stdout


def test_renaming_says_what_to_do_instead(orders: str) -> None:
    """Not the most similar command."""
    shown = run(orders, "topic", "rename", "orders", "sales")
    assert shown.exit_code == 2
    assert "topic clone OLD NEW" in " ".join(shown.stderr.replace("│", " ").split())


def test_a_row_is_one_line_in_a_pipe(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is wider than any terminal is found by ``grep``, in the row of its topic."""
    monkeypatch.delenv("COLUMNS")
    name = "a" * 200
    assert run(gateway.url, "topic", "create", name).exit_code == 0
    assert [line.split()[:2] for line in run(gateway.url, "topic", "list").stdout.splitlines()[1:]] == [[name, "1"]]
