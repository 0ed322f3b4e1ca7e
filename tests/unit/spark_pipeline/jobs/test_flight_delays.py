"""The parts of the flight_delays job that need no Spark."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import Row

from spark_pipeline.jobs.flight_delays import Output, end_at_signals, mean_delays, summarize


def row(**values: object) -> Row:
    known = {
        "partition": 0, "hour": 5, "carrier": "UA", "count": 1, "checksum_sum": 1, "checksum_xor": 1,
        "next_offset": 1, "flights": 1, "departed": 1, "delay_minutes": 1.0,
    }  # fmt: skip
    return Row(**(known | values))


def test_partitions_are_summed_up_before_the_mean_is_taken() -> None:
    """A mean of means would weigh a partition with one flight like one with a thousand."""
    rows = [
        row(partition=0, flights=3, departed=3, delay_minutes=3.0),
        row(partition=1, flights=2, departed=1, delay_minutes=9.0),
        row(partition=1, carrier="AA", flights=2, departed=0, delay_minutes=None),
    ]
    assert mean_delays(rows) == [
        {"hour": 5, "carrier": "AA", "flights": 2, "departed": 0, "mean_delay_minutes": None},
        {"hour": 5, "carrier": "UA", "flights": 5, "departed": 4, "mean_delay_minutes": 3.0},
    ]


def test_a_value_that_is_no_flight_counts_as_a_record_and_in_no_mean() -> None:
    """One malformed value neither stops the job nor hides from the checksum."""
    rows = [row(hour=None, carrier=None, flights=0, departed=0, delay_minutes=None, count=2, checksum_sum=7)]
    assert mean_delays(rows) == []
    assert summarize(rows)["count"] == 2
    assert summarize(rows)["checksum_sum"] == 7


def test_the_summary_has_the_furthest_offset_of_each_partition() -> None:
    """The next offset is what the lag is computed from; groups of one partition have different ones."""
    rows = [row(next_offset=4), row(next_offset=9, hour=6), row(partition=1, next_offset=2, checksum_xor=6)]
    assert summarize(rows) == {"count": 3, "checksum_sum": 3, "checksum_xor": 6, "next_offsets": {"0": 9, "1": 2}}


def test_files_appear_whole(tmp_path: Path) -> None:
    """A reader of the output directory never gets half a file: nothing is written under a name that is looked for."""
    output = Output(tmp_path, records=None)
    output.ready()
    assert json.loads((tmp_path / "ready.json").read_text())["ready_at_ms"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["batches", "ready.json"]


def test_a_stop_file_is_seen(tmp_path: Path) -> None:
    """A job without a number of records ends when it is asked to."""
    output = Output(tmp_path, records=None)
    assert not output.stop_asked()
    (tmp_path / "stop").touch()
    assert output.stop_asked()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_job_as_one_that_has_seen_enough(tmp_path: Path, number: signal.Signals) -> None:
    """A container that is stopped ends with success; nobody sees a traceback of what was interrupted."""
    output = Output(tmp_path, records=None)
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        end_at_signals(output)
        os.kill(os.getpid(), number)
        assert output.complete.is_set()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_a_restarted_job_that_has_seen_enough_does_not_wait_for_more(tmp_path: Path) -> None:
    """The records it was to see are all in its checkpoint, so no further batch would ever tell it to end."""
    batches = tmp_path / "batches"
    batches.mkdir()
    (batches / "000009.json").write_text('{"count": 3}')
    assert Output(tmp_path, records=3).complete.is_set()
    assert not Output(tmp_path, records=4).complete.is_set()
    assert not Output(tmp_path, records=None).complete.is_set()
