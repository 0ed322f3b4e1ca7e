"""How far a topic's own Delta table lags behind the acknowledgements of its records.

A topic that commits by itself lags by nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.harness import trace
from benchmarks.harness.percentiles import Array, percentile
from benchmarks.topics.answers import Answers
from benchmarks.topics.open_loop import Load, Plan
from benchmarks.topics.outcome import RSS_MIB_MAX, Options, Outcome, acknowledged
from benchmarks.topics.schedule import Stream
from benchmarks.topics.site import Run, opened, store_of
from log_format.layout import commit_key
from log_format.store import ObjectStore

TOPICS: Final = 1_000
LAG_MAX: Final = 1.2
"""In multiples of ``drain.ms``."""


def measure(case: str, run: Run, options: Options) -> Outcome:
    """Send one record a second and topic to one gateway, and wait until everything should be drained."""
    stream = Stream(topics=options.topics or TOPICS, per_second=1)
    with opened(run) as site:
        drains = site.knows("drain.ms", options.drain_ms)
        names = site.make_topics(stream.topics, {"drain.ms": options.drain_ms} if drains else {})
        # Long enough for several drains of each topic.
        seconds = options.warm_up_seconds + max(options.seconds, 2.5 * options.drain_ms / 1000 if drains else 0)
        load = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=seconds))
        answers, _ = load.result()
        time.sleep(LAG_MAX * options.drain_ms / 1000 if drains else 0)
        rows = site.asked(load.starts_at, time.monotonic())[0]
        rss_mib = site.rss_peak_mib()
        start, end = load.starts_at + options.warm_up_seconds, load.ends_at
        lags, missing_count = table_lags(answers.between(start, end), names, rows, store_of(site))
    drained = trace.between(rows, start, end)
    figures = {
        **acknowledged(answers, start, end),
        "drain.ms": options.drain_ms if drains else None,
        "lag p50 ms": percentile(lags, 0.5),
        "lag p99 ms": percentile(lags, 0.99),
        "lag most, ms": float(lags.max(initial=0.0)),
        "not in the table": missing_count,
        "commits of topics/s": len(trace.puts(drained, "commit", "topic")) / (end - start),
        "PUT/s": trace.rates(drained, end - start)["PUT/s"],
        "RSS most, MiB": rss_mib,
    }
    wanted = {"lag p99 ms": LAG_MAX * options.drain_ms, "not in the table": 0, "RSS most, MiB": RSS_MIB_MAX}
    return Outcome(case=case, run=run, figures=figures, wanted=wanted)


def table_lags(answers: Answers, names: Sequence[str], rows: Array, store: ObjectStore) -> tuple[Array, int]:
    """Return ms from each record's acknowledgement to the commit of its table, and the number of records without one.

    A topic has one partition here, a request one record.
    """
    kept = answers.acknowledged()
    commits = trace.puts(rows[rows["ok"] == 1], "commit", "topic")
    lags: list[Array] = []
    missing_count = 0
    for topic, name in enumerate(names):
        own = np.sort(commits[commits["table"] == trace.table_of(name)], order="version")
        ends = [next_offset(store.get(commit_key(name, int(version)))) for version in own["version"]]
        chosen = kept.topic == topic
        offsets, acknowledged_at = kept.offset[chosen], kept.done[chosen]
        # The first commit whose next offset is beyond the record; commits of other things keep the offset before them.
        place = np.searchsorted(np.maximum.accumulate([-1, *ends])[1:], offsets, side="right")
        found = place < len(ends)
        missing_count += int(np.count_nonzero(~found))
        lags.append((own["end"][place[found]] - acknowledged_at[found]) * 1000)
    return np.maximum(0, np.concatenate(lags)) if lags else np.array([]), missing_count


def next_offset(commit: bytes) -> int:
    """Return the next offset of partition 0 that a commit sets; -1 if it sets none."""
    for line in commit.splitlines():
        action = json.loads(line).get("txn")
        if action is not None and action["appId"] == "0":
            return int(action["version"])
    return -1
