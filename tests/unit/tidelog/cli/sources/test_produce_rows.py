"""Unit tests of ``tidelog produce`` with JSON objects, CSV and Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.sources.rows import ROWS_MAX
from tidelog.cli.terminal.exit_code import ExitCode


def sent(gateway: FakeGateway, topic: str = "t") -> list[tuple[bytes | None, bytes | None, int]]:
    return [
        (record.key, record.value, record.timestamp_ms)
        for records in gateway.topics[topic].records
        for record in records
    ]


def test_objects_go_as_they_are(gateway: FakeGateway, run: Run) -> None:
    """The value is the line, byte for byte; the key is a string's text, or the very text of anything else."""
    gateway.create("t")
    first = b'{"id": "a\\u00e9", "at": "1970-01-01T00:00:01Z", "n": 1.50}'
    given = first + b'\n\n {"id": 12345678901234567890, "at": 7}\n{"id":null,"at":"8"}'
    result = run(
        "produce", "t", "-f", "objects", "--key-field", "id", "--timestamp-field", "at", "--allow-old", given=given
    )
    assert result.exit_code == 0, result.stderr
    assert sent(gateway) == [
        ("aé".encode(), first, 1000),
        (b"12345678901234567890", b'{"id": 12345678901234567890, "at": 7}', 7),
        (None, b'{"id":null,"at":"8"}', 8),
    ]


def test_csv_rows_keep_their_text(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """Fields are text exactly as they stand there, also with line breaks in quotes; each file has its own first line."""
    gateway.create("t", 2)
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfzip,note\r\n00123,"two\nlines, one ""field"""\r\n')
    (tmp_path / "b.csv").write_bytes(b"note,zip\nx,9\n")
    files = (str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    result = run("produce", "t", *files, "--key-field", "zip", "-p", "1", "-H", "from=test", "--json")
    assert result.exit_code == 0, result.stderr
    records = gateway.topics["t"].records[1]
    assert [(record.key, json.loads(record.value)) for record in records] == [
        (b"00123", {"zip": "00123", "note": 'two\nlines, one "field"'}),
        (b"9", {"note": "x", "zip": "9"}),
    ]
    assert {record.headers for record in records} == {(("from", b"test"),)}
    assert json.loads(result.stdout)["stored_through"] == {"file": files[1], "line": 2}
    gateway.create("u")
    assert (
        run("produce", "u", "-f", "csv", "--csv-delimiter", "tab", "--value-field", "b", given="a\tb\n1\t2\n").exit_code
        == 0
    )
    assert gateway.values("u") == [[b"2"]]


def test_parquet_of_records_and_of_anything(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """What consume wrote is sent as the records that it was; any other row becomes JSON."""
    gateway.create("t", 2)
    gateway.create("copy", 2)
    gateway.topics["t"].records[1] = [
        Record("t", 1, 0, 5, b"k", b"\xff\x00", (("h", b"\xfe"),)),
        Record("t", 1, 1, 6, None, None),
    ]
    path = tmp_path / "t.parquet"
    assert run("consume", "t", "--output", str(path)).exit_code == 0
    result = run("produce", "copy", str(path))
    assert result.exit_code == 0, result.stderr
    written = [(r.key, r.value, r.headers) for r in gateway.topics["copy"].records[1]]
    assert written == [(r.key, r.value, r.headers) for r in gateway.topics["t"].records[1]]
    times = pa.array([1_000_000], pa.timestamp("us"))
    pq.write_table(pa.table({"id": [7], "at": times, "x": [[1, 2]]}), path)
    gateway.create("u")
    assert run("produce", "u", str(path), "--key-field", "id", "--timestamp-field", "at", "--allow-old").exit_code == 0
    assert sent(gateway, "u") == [(b"7", b'{"id":7,"at":"1970-01-01T00:00:01","x":[1,2]}', 1000)]


@pytest.mark.parametrize(
    ("format_", "given", "place"),
    [
        ("objects", '{"id":1}\n{"id":2}\n\n{"id":\n', "line 4: "),
        ("objects", '{"id":1}\n{"id":2}\n{"id":3,"x":' + "[" * 5000 + "\n", "line 3: "),
        ("objects", '{"id":1}\n{"id":2}\n{"no":3}\n', "line 3: the object has no member 'id'"),
        ("objects", '{"id":1}\n{"id":2}\n[3]\n', "line 3: "),
        ("csv", "id,x\n1,a\n2,b\n3\n", "line 4: it has 1 fields"),
        ("csv", 'id,x\n1,"a\nb"\n2,b\n3,a,b\n', "line 5: "),
        ("csv", b"id,x\n1,a\n2,b\n3,\xff\n", "line 4: "),
        ("csv", 'id,x\n1,a\n2,b\n3,"a\n', "line 4: "),
    ],
)
def test_a_bad_line_is_named_and_those_before_it_are_stored(
    gateway: FakeGateway, run: Run, format_: str, given: str | bytes, place: str
) -> None:
    """By its number in its file, with how far the input is stored; nothing behind it is sent."""
    gateway.create("t")
    result = run("produce", "t", "-f", format_, "--key-field", "id", given=given)
    assert result.exit_code == ExitCode.FAILED
    assert place in result.stderr
    assert "2 records stored" in result.stderr
    assert "Stored without a gap up to line" in result.stderr
    assert [key for key, _, _ in sent(gateway)] == [b"1", b"2"]


def test_what_the_gateway_refuses_is_named_by_its_line(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """The gateway counts a request's rows; users count their file's lines."""
    gateway.create("t")
    path = tmp_path / "in.csv"
    path.write_text('id\n1\n"2\n"\n3\n')
    errors = [{"where": "/records/2/value", "what": "is too large"}]
    gateway.misbehave("POST .*/records", gateway.refuse(400, "INVALID_RECORD", errors=errors))
    result = run("produce", "t", str(path))
    assert result.exit_code == ExitCode.REFUSED
    assert f"{path}, line 5, value: is too large" in result.stderr
    assert f"First failure: {path}, line 5." in result.stderr
    assert "0 records stored" in result.stderr


def test_options_that_do_not_fit_are_refused_before_anything_is_sent(
    gateway: FakeGateway, run: Run, tmp_path: Path
) -> None:
    """Wrong usage is exit code 2, a file that can't be is 1, and the topic stays as it is."""
    gateway.create("t")
    for arguments in (
        ("-f", "ndjson", "--key-field", "id"),
        ("-f", "lines", "--value-field", "id"),
        ("-f", "csv", "-k", ":"),
        ("-f", "csv", "--csv-delimiter", "ab"),
        ("-k", ""),
    ):
        assert run("produce", "t", *arguments, given='{"id":1}').exit_code == ExitCode.USAGE, arguments
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "a.parquet").write_text("x")
    assert run("produce", "t", str(tmp_path / "a.csv"), str(tmp_path / "a.parquet")).exit_code == ExitCode.USAGE
    assert run("produce", "t", str(tmp_path / "a.parquet")).exit_code == ExitCode.FAILED
    assert run("produce", "t", "-f", "parquet", given=b"PAR1").exit_code == ExitCode.FAILED
    missing = run("produce", "t", str(tmp_path / "a.csv"), "--key-field", "y")
    assert (missing.exit_code, "no column 'y'" in missing.stderr) == (ExitCode.FAILED, True)
    assert gateway.values("t") == [[]]


def test_many_rows_are_many_requests(gateway: FakeGateway, run: Run) -> None:
    """Memory is bounded: rows go when they are worth a request, in their order."""
    gateway.create("t")
    count = 2 * ROWS_MAX + 5
    given = "n\n" + "".join(f"{number}\n" for number in range(count))
    assert run("produce", "t", "-f", "csv", "--value-field", "n", given=given).exit_code == 0
    assert gateway.values("t") == [[b"%d" % number for number in range(count)]]
    # Three pieces; where the machine stands still for a moment one may go in two, or again.
    assert 3 <= gateway.count("POST .*/records") < 8


def test_files_of_plain_objects_need_no_format(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """What has no value can't be a record, so the line is the value, and one line says so; records stay records."""
    gateway.create("t")
    plain, records = tmp_path / "events.ndjson", tmp_path / "records.jsonl"
    plain.write_text('\n{"user":"a","amount":3}\n{"user":"b"}\n')
    records.write_text('{"key":"a","value":"v"}\n')
    taken = run("produce", "t", str(plain), "--key-field", "user")
    assert taken.exit_code == 0, taken.output
    assert "--format objects" in taken.stderr
    sent = run("produce", "t", str(records))
    assert sent.exit_code == 0, sent.output
    assert "objects" not in sent.stderr
    found = [(record.key, record.value) for record in gateway.topics["t"].records[0]]
    assert found == [(b"a", b'{"user":"a","amount":3}'), (b"b", b'{"user":"b"}'), (b"a", b"v")]
    both = run("produce", "t", str(plain), str(records))
    assert both.exit_code == ExitCode.USAGE
    assert "send them separately" in both.stderr
    assert len(gateway.topics["t"].records[0]) == 3
