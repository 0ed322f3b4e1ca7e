"""``--timestamp-field``: times in another unit, or that have expired already, are refused with what to do."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.sources.times import Times, TimeUnit
from tidelog.cli.terminal.exit_code import ExitCode

NOW_S = int(time.time())
DAY_S = 86_400
AS_OBJECTS = ("-f", "objects", "--timestamp-field", "at")


def _times(gateway: FakeGateway) -> list[int]:
    return [record.timestamp_ms for record in gateway.topics["t"].records[0]]


def test_seconds_are_not_taken_for_milliseconds(run: Run, gateway: FakeGateway) -> None:
    """Refused with the number, the time that it would be, and the option; nothing of it is stored."""
    gateway.create("t")
    given = json.dumps({"at": NOW_S}) + "\n"
    refused = run("produce", "t", *AS_OBJECTS, given=given)
    assert refused.exit_code == ExitCode.FAILED
    for words in (f"line 1: {NOW_S} is 1970-01-2", "before 2000", "--timestamp-unit s", "--allow-old"):
        assert words in refused.stderr
    assert _times(gateway) == []
    assert run("produce", "t", *AS_OBJECTS, "--timestamp-unit", "s", given=given).exit_code == 0
    assert run("produce", "t", *AS_OBJECTS, "--allow-old", given=given).exit_code == 0
    assert _times(gateway) == [NOW_S * 1000, NOW_S]


def test_times_that_the_topic_does_not_keep_are_refused(run: Run, gateway: FakeGateway) -> None:
    """By the topic's own retention; without one, with keys compacted only, or with the gateway's time, any time is taken."""
    given = json.dumps({"at": (NOW_S - 8 * DAY_S) * 1000}) + "\n"
    gateway.create("t")
    refused = run("produce", "t", *AS_OBJECTS, given=given)
    assert refused.exit_code == ExitCode.FAILED
    assert "older than the topic keeps records (retention.ms=604800000)" in refused.stderr
    assert "--timestamp-unit" not in refused.stderr
    configs: tuple[dict[str, Any], ...] = (
        {"retention_ms": 9 * DAY_S * 1000},
        {"retention_ms": -1},
        {"cleanup_policy": "compact"},
        {"message_timestamp_type": "LogAppendTime"},
    )
    for number, config in enumerate(configs):
        gateway.create(f"t{number}", **config)
        assert run("produce", f"t{number}", *AS_OBJECTS, given=given).exit_code == 0, config


def test_old_times_of_csv_and_parquet_are_refused(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """Also as text, ISO 8601 and typed; the rows before them are stored."""
    gateway.create("t")
    now = datetime.now(UTC).isoformat()
    (tmp_path / "x.csv").write_text(f"at\n{now}\n1999-12-31T23:59:59Z\n")
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("us"))}), tmp_path / "x.parquet")
    for name, place in (("x.csv", "line 3"), ("x.parquet", "row 1")):
        refused = run("produce", "t", tmp_path / name, "--timestamp-field", "at")
        assert refused.exit_code == ExitCode.FAILED
        assert place in refused.stderr
        assert "before 2000: give --allow-old" in refused.stderr
    assert len(_times(gateway)) == 1


@pytest.mark.parametrize(
    ("unit", "number"),
    [("s", 1_763_683_200), ("ms", 1_763_683_200_000), ("us", 1_763_683_200_000_999), ("ns", 1_763_683_200_000_999_999)],
)
def test_units_of_numbers(unit: str, number: int) -> None:
    """As numbers and as text; what is no time in its unit is refused."""
    times = Times(unit=TimeUnit(unit))
    assert times.of(number) == times.of(str(number)) == 1_763_683_200_000
    assert times.of(None) is None
    assert times.of("2025-11-21T00:00:00Z") == 1_763_683_200_000
    wrong_times: tuple[object, ...] = (True, 1.5, [], "yesterday", 10**30, -1)
    for wrong in wrong_times:
        with pytest.raises(ValueError):
            times.of(wrong)


def test_settings_that_remove_most_of_a_topic_need_a_yes(run: Run, gateway: FakeGateway) -> None:
    """Said with how much; settings that remove nothing, or little, are changed without."""
    gateway.create("t")
    given = "".join(json.dumps({"at": (NOW_S - age * DAY_S) * 1000}) + "\n" for age in (6, 5, 4, 0))
    assert run("produce", "t", *AS_OBJECTS, given=given).exit_code == 0
    for setting in ("retention.ms=3", "retention.ms=1d", "retention.bytes=1"):
        refused = run("topic", "alter", "t", "-c", setting)
        assert refused.exit_code == ExitCode.USAGE, setting
        assert "of 4 records of topic t at the next round of maintenance" in refused.stderr
        assert "--yes" in refused.stderr
    assert gateway.topics["t"].config == {}
    assert run("topic", "alter", "t", "-c", "retention.ms=5d12h").exit_code == 0
    assert run("topic", "alter", "t", "-c", "retention.ms=-1").exit_code == 0
    assert run("topic", "alter", "t", "-c", "retention.ms=3", "--yes").exit_code == 0
    assert run("topic", "alter", "t", "-c", "retention.ms=3").exit_code == 0, "it is so already"
