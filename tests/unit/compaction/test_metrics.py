"""What Prometheus is told of maintenance is what maintenance did."""

from __future__ import annotations

import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from compaction.__main__ import main
from compaction.metrics import CountingReporter, Metrics, serve
from tests.support.collected_events import CollectedEvents
from tests.support.maintenance_bench import MaintenanceBench

PREFIX = "tidelog_maintenance_"


def value(metrics: Metrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(f"{PREFIX}{name}", labels)
    assert found is not None, name
    return found


def run_round(bench: MaintenanceBench, metrics: Metrics, *, collect: bool = False) -> Any:
    """A round as the process runs it."""
    report = CountingReporter(bench.report, metrics)
    job = bench.job()
    job.report = report
    totals = job.run_round(collect=collect)
    report.event("round", ms=1500, **totals.as_dict())
    return totals


def test_a_round_is_counted(bench: MaintenanceBench) -> None:
    """Segments and bytes as the commits had them, what still waits, and when it succeeded."""
    metrics = Metrics(bench.clock)
    bench.create(2)
    for number in range(3):
        bench.append((number % 2, None, b"%d" % number))
    sizes = [segment.size_bytes for segment in bench.log.state.manifest.segments()]
    bench.clock.pass_ms(10_000)
    totals = run_round(bench, metrics)
    assert value(metrics, "rewrites_total", outcome="committed") == totals.rewrites == 1
    assert (value(metrics, "read_segments_total"), value(metrics, "read_bytes_total")) == (3, sum(sizes))
    assert value(metrics, "written_segments_total") == 2
    assert value(metrics, "written_bytes_total") == totals.bytes_out > 0
    assert (value(metrics, "waiting_segments"), value(metrics, "waiting_bytes")) == (0, 0)
    assert value(metrics, "last_success_timestamp_seconds") == bench.clock.now_ms() / 1000
    assert (value(metrics, "round_seconds_sum"), value(metrics, "topics")) == (1.5, 1)
    bench.append((0, None, b"waits"))
    run_round(bench, metrics)
    (waiting,) = [each for each in bench.log.state.manifest.segments() if each.path.startswith("segments/")]
    assert (value(metrics, "waiting_segments"), value(metrics, "waiting_bytes")) == (1, waiting.size_bytes)
    assert value(metrics, "rounds_total", outcome="succeeded") == 2


def test_a_round_that_failed_is_no_success(bench: MaintenanceBench) -> None:
    """Nor is the age of the last success ever unknown: it begins with the process."""
    metrics = Metrics(bench.clock)
    began = bench.clock.now_ms() / 1000
    bench.create(1)
    for number in range(3):
        bench.append((0, None, b"%d" % number))
    path = bench.log.state.manifest.segments()[1].path
    bench.store.put(f"topics/t/{path}", b"damaged")
    bench.clock.pass_ms(60_000)
    run_round(bench, metrics)
    assert value(metrics, "last_success_timestamp_seconds") == began
    assert (value(metrics, "rounds_total", outcome="failed"), value(metrics, "failed_topics_total")) == (1, 1)
    assert value(metrics, "waiting_segments") == 3


def test_deletions_are_counted_once_done(bench: MaintenanceBench) -> None:
    """By the objects that went, not by those that were to go."""
    metrics = Metrics(bench.clock)
    bench.create(1)
    bench.append((0, None, b"x"))
    bench.store.put("topics/t/segments/orphan.parquet", b"12345")
    bench.clock.pass_ms(25 * 3_600_000)
    assert run_round(bench, metrics, collect=True).deleted_objects == 1
    assert (value(metrics, "deleted_objects_total"), value(metrics, "deleted_bytes_total")) == (1, 5)


def test_metrics_are_served(bench: MaintenanceBench) -> None:
    """On 127.0.0.1 unless another address is asked for, as long as maintenance runs; a port that is taken is said to be."""
    report = CollectedEvents()
    with serve(report, bench.clock, host="127.0.0.1", port=0) as counting:
        ((_, fields),) = report.events
        url = str(fields["url"])
        assert url.startswith("http://127.0.0.1:")
        counting.event("rewrite", outcome="overtaken")
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert f'{PREFIX}rewrites_total{{outcome="overtaken"}} 1.0' in answer.read().decode()
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(ValueError, match=f"metrics can't be served on 127.0.0.1:{port}"):
            serve(report, bench.clock, host="127.0.0.1", port=port)
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=60):
        pass


def test_an_installation_without_prometheus_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, which says what to install; and metrics of a single round are refused."""
    monkeypatch.delitem(sys.modules, "compaction.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    options = ["--store", str(tmp_path / "log"), "--workers", "local", "--metrics-port", "0"]
    assert main([*options, "--every", "1s"]) == 1
    assert capsys.readouterr().err == "--metrics-port needs prometheus-client: pip install 'tidelog[collect]'\n"
    with pytest.raises(SystemExit):
        main(options)
    assert "--every" in capsys.readouterr().err
