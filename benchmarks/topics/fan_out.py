"""One flush of many topics: a record for each of them, all due at the same moment, every few seconds.

In mode ``own`` every topic has its own commit: ``commit ms`` is that of one of them, and ``all commits ms`` that of the flush.
"""

from __future__ import annotations

import statistics
from typing import Final

import numpy as np

from benchmarks.harness import trace
from benchmarks.harness.metrics import metrics
from benchmarks.harness.percentiles import Array, percentile
from benchmarks.topics.open_loop import Load, Plan
from benchmarks.topics.outcome import Options, Outcome
from benchmarks.topics.schedule import Stream
from benchmarks.topics.site import Run, Site, opened

TOPICS: Final = 632
BURST_SECONDS: Final = 4.0
COMMIT_MS_MAX: Final = 30


def measure(case: str, run: Run, options: Options) -> Outcome:
    """Send bursts after the warm-up, and return medians of them."""
    stream = Stream(topics=options.topics or TOPICS, per_second=1 / BURST_SECONDS, at_once=True)
    warm_up = BURST_SECONDS * np.ceil(options.warm_up_seconds / BURST_SECONDS)
    bursts = max(2, round(options.seconds / BURST_SECONDS))
    with opened(run) as site:
        names = site.make_topics(stream.topics)
        seconds = warm_up + bursts * BURST_SECONDS
        load = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=seconds))
        before = site.sample_at(load.starts_at + warm_up - BURST_SECONDS / 10)
        counted = _commit_seconds(site)
        after = site.sample_at(load.ends_at - BURST_SECONDS / 10)
        counted = {name: value - counted[name] for name, value in _commit_seconds(site).items()}
        answers, _ = load.result()
        asked = site.asked(before.at, after.at)[0]
    starts = [load.starts_at + warm_up + number * BURST_SECONDS for number in range(bursts)]
    found = [commits(trace.between(asked, at, at + BURST_SECONDS)) for at in starts]
    last = [float(np.nanmax(answers.between(at, at + 1).latency_ms(), initial=np.nan)) for at in starts]
    cpu_seconds = after.cpu_seconds[0] - before.cpu_seconds[0] + after.store_cpu_seconds - before.store_cpu_seconds
    chosen = answers.between(before.at, after.at)
    figures = {
        "topics": stream.topics,
        "bursts": bursts,
        "commits": statistics.median(each["commits"] for each in found),
        "largest, KiB": statistics.median(each["largest"] for each in found) / 1024,
        "commit ms": statistics.median(each["ms"] for each in found),
        "of it its PUT ms": statistics.median(each["put_ms"] for each in found),
        "all commits ms": statistics.median(each["all_ms"] for each in found),
        "metric commit_seconds, mean ms": counted["sum"] / counted["count"] * 1000 if counted["count"] else None,
        "acknowledged p50 ms": percentile(chosen.latency_ms(), 0.5),
        "last ms": statistics.median(last),
        "not acknowledged": sum(chosen.refused().values()),
        "CPU of gateway and store, ms": cpu_seconds / bursts * 1000,
    }
    return Outcome(case=case, run=run, figures=figures, wanted={"commit ms": COMMIT_MS_MAX, "commits": 1})


def commits(rows: Array) -> dict[str, float]:
    """Return a burst's commits to journals, or to topics without any; the largest, and its ms from the last segment before it."""
    segments = trace.puts(rows, "segment")["end"]
    kept = trace.puts(rows, "commit", "journal")
    if not len(kept):
        kept = trace.puts(rows, "commit", "topic")
    if not len(kept):
        return {"commits": 0, "largest": np.nan, "ms": np.nan, "put_ms": np.nan, "all_ms": np.nan}
    largest = kept[np.argmax(kept["bytes"])]
    before = segments[segments <= largest["start"]]
    start = before.max() if len(before) else largest["start"]
    return {
        "commits": len(kept),
        "largest": float(largest["bytes"]),
        "ms": float(largest["end"] - start) * 1000,
        "put_ms": float(largest["end"] - largest["start"]) * 1000,
        "all_ms": float(kept["end"].max() - kept["start"].min()) * 1000,
    }


def _commit_seconds(site: Site) -> dict[str, float]:
    found = metrics(site.ports[0])
    return {name: found.total(f"tidelog_commit_seconds_{name}") for name in ("sum", "count")}
