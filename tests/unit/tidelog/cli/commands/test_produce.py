"""``tidelog produce``, over the in-process gateway."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.limits import REQUEST_TARGET_BYTES


def test_lines_become_records_byte_for_byte(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """Each line is a value: also an empty one, one that is no UTF-8, and a last one without a line break."""
    gateway.create("t")
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\n\n\xff\xfe\r\n")
    second.write_bytes(b"last")
    result = run("produce", "t", str(first), str(second), "-H", "from=test", "--json")
    assert result.exit_code == 0
    assert gateway.values("t") == [[b"a", b"", b"\xff\xfe\r", b"last"]]
    assert gateway.topics["t"].records[0][0].headers == (("from", b"test"),)
    said = json.loads(result.stdout)
    assert (said["record_count"], said["failed_count"]) == (4, 0)
    assert said["partitions"] == [{"partition": 0, "base_offset": 0, "last_offset": 3, "count": 4}]
    assert result.stderr == ""


def test_keys_and_partitions_of_lines(run: Run, gateway: FakeGateway) -> None:
    """The key ends at the first separator; a line without one stops the command, and what was before it is stored."""
    gateway.create("t", 3)
    given = b"k1:v:1\nk2:v2\n"
    assert run("produce", "t", "-k", ":", "-p", "2", "--compression", "zstd", given=given).exit_code == 0
    assert [(record.key, record.value) for record in gateway.topics["t"].records[2]] == [
        (b"k1", b"v:1"),
        (b"k2", b"v2"),
    ]
    result = run("produce", "t", "-k", ":", "-p", "0", given=b"a:1\nnone\n")
    assert result.exit_code == ExitCode.FAILED
    assert "line 2" in result.stderr
    assert gateway.values("t")[0] == [b"1"]
    assert "1 record stored" in result.stderr


def test_ndjson_goes_as_it_is_and_errors_name_the_line_of_the_input(
    run: Run, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway decides what a record is; however the input is cut into requests, a bad line has its own number."""
    gateway.create("t", 2)
    long = "x" * (REQUEST_TARGET_BYTES // 10)
    lines = [json.dumps({"partition": number % 2, "key": long, "value": {"n": number}}) for number in range(20)]
    good = tmp_path / "good"
    good.write_text("\n".join(lines))
    result = run("produce", "t", str(good), "-f", "ndjson", "--json")
    assert json.loads(result.stdout)["record_count"] == 20
    assert gateway.values("t")[1] == [b'{"n":%d}' % number for number in range(1, 20, 2)]
    assert gateway.count("POST .*/records") > 2
    lines[12] = '{"value": '
    bad = tmp_path / "bad"
    bad.write_text("\n".join(lines))
    result = run("produce", "t", str(bad), "-f", "ndjson")
    assert result.exit_code == ExitCode.REFUSED
    assert "line 13: " in result.stderr
    stored = sum(map(len, gateway.values("t"))) - 20
    assert f"{stored} records stored" in result.stderr
    assert 0 < stored <= 12
    assert run("produce", "t", "-f", "ndjson", "-k", ":", given=b"").exit_code == ExitCode.USAGE


def test_produce_says_what_did_not_arrive(run: Run, gateway: FakeGateway, dead_url: str, tmp_path: Path) -> None:
    """An unknown topic, no gateway, no file, a lost answer: each with its exit code and how much was stored."""
    assert run("produce", "nope", given=b"x\n").exit_code == ExitCode.REFUSED
    result = run("produce", "t", "--url", dead_url, "--timeout", "0.3", given=b"x\n")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "0 records stored" in result.stderr
    assert "1 record is not stored: no gateway took it." in result.stderr
    assert run("produce", "t", str(tmp_path / "none")).exit_code == ExitCode.FAILED
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.lose(done=True))
    result = run("produce", "t", "-f", "ndjson", given=b'{"value": "x"}\n')
    assert result.exit_code == ExitCode.OUTCOME_UNKNOWN
    assert "1 record may be stored or not: its answer was lost." in result.stderr


@pytest.mark.parametrize(
    ("format_", "where"), [("lines", "/records/0/value/id"), ("objects", "/records/0/value/id"), ("ndjson", "line 1")]
)
def test_a_refused_record_is_said_to_be_refused(run: Run, gateway: FakeGateway, format_: str, where: str) -> None:
    """With its line in the input, the member and the reason, once; nothing says that it may be stored."""
    gateway.create("t")
    wrong = [{"where": where, "what": "it must be a number"}]
    detail = f"Nothing was stored. {where}: it must be a number."
    refused = gateway.refuse(400, "INVALID_RECORD", detail=detail, errors=wrong)
    gateway.misbehave("POST .*/records", refused, refused)  # the producer asks again with newer facts of the topic
    result = run("produce", "t", "-f", format_, given=b'{"value": "x"}\n')
    assert result.exit_code == ExitCode.REFUSED
    assert result.stderr.splitlines()[-4:] == [
        "0 records stored in t, 0/s.",
        "1 record was refused, and is not stored.",
        f"line 1{', value/id' if format_ != 'ndjson' else ''}: it must be a number. [INVALID_RECORD]",
        "  request id: refused",
    ]


def test_why_a_record_became_a_dead_letter(run: Run, gateway: FakeGateway) -> None:
    """The command succeeds, and says how many went there, and the first one's line and reason."""
    gateway.create("t")
    letters = [
        {"index": 0, "topic": "t.dead-letters", "partition": 0, "offset": 4, "reason": "value.id: it is missing"}
    ]
    gateway.will_answer("POST .*/records", {"topic": "t", "partitions": [], "dead_letters": letters})
    result = run("produce", "t", given=b"{}\n")
    assert result.exit_code == 0
    assert "1 record went to t.dead-letters instead: not of the topic's schema.\n" in result.stderr
    assert "\n  the first: line 1, value.id: it is missing\n" in result.stderr


def test_one_key_for_all(run: Run, gateway: FakeGateway) -> None:
    """``--key`` is the key of each line, and of each row that has none; where records have their own it is refused."""
    gateway.create("t")
    assert run("produce", "t", "--key", "user-7", given="a\nb\n").exit_code == 0
    assert [(each.key, each.value) for each in gateway.topics["t"].records[0]] == [(b"user-7", b"a"), (b"user-7", b"b")]
    gateway.create("rows")
    rows = '{"user": "u", "n": 1}\n{"user": null, "n": 2}\n'
    result = run("produce", "rows", "-f", "objects", "--key-field", "user", "--key", "none", given=rows)
    assert result.exit_code == 0, result.stderr
    assert [each.key for each in gateway.topics["rows"].records[0]] == [b"u", b"none"]
    for other in (["-f", "ndjson"], ["-k", ":"]):
        assert run("produce", "t", "--key", "x", *other, given="").exit_code == 2
