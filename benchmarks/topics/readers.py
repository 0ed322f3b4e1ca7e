"""A reader that waits at each of two gateways for each topic: what waiting asks of the store, and how soon a reader wakes.

``readers-unheard``: the gateways can't reach each other, and all records go to the gateway that commits most. So the other one
hears of them from the store alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.harness import trace
from benchmarks.harness.percentiles import Array, percentile
from benchmarks.topics.answers import Answers, Wakes
from benchmarks.topics.open_loop import Load, Plan
from benchmarks.topics.outcome import RSS_MIB_MAX, Figure, Options, Outcome, acknowledged
from benchmarks.topics.schedule import Stream
from benchmarks.topics.site import Run, committers, opened

TOPICS: Final = 1_000
PER_SECOND: Final = 50
"""Records of all topics together."""
FIND_SECONDS: Final = 5.0
_SETTINGS: Final = ("--connections-max", "4000")
"""A gateway has 1,000 by default."""


def measure(case: str, run: Run, options: Options) -> Outcome:
    """Measure readers alone, then with records."""
    topics = options.topics or TOPICS
    stream = Stream(topics=topics, per_second=PER_SECOND / topics)
    waiting = tuple((topic, gateway) for gateway in range(2) for topic in range(topics))
    is_unheard = case == "readers-unheard"
    with opened(run, 2, _SETTINGS, is_relayed=True) as site:
        names = site.make_topics(topics)
        finding = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=FIND_SECONDS))
        finding.result()
        commits = committers(site.asked(finding.starts_at, time.monotonic()))
        if is_unheard and site.between is not None:
            site.between.cut()
        seconds = options.warm_up_seconds + options.seconds
        idle = Load(Plan(ports=site.ports, topics=names, streams=(), seconds=seconds, readers=waiting))
        before = site.sample_at(idle.starts_at + options.warm_up_seconds)
        after = site.sample_at(idle.ends_at)
        _, idle_wakes = idle.result()
        load = Load(
            Plan(
                ports=site.ports,
                topics=names,
                streams=(stream,),
                seconds=seconds,
                receivers=(commits.index(max(commits)),) if is_unheard else (),
                readers=waiting,
            )
        )
        load_before = site.sample_at(load.starts_at + options.warm_up_seconds)
        load_after = site.sample_at(load.ends_at)
        answers, wakes = load.result()
        asked = site.asked(load_before.at, load_after.at)
        rss_mib = site.rss_peak_mib()
        idle_asked = site.asked(before.at, after.at)
        owners = owner_of(names, site.asked(0, load_after.at))
    idle_cpu = max(end - start for start, end in zip(before.cpu_seconds, after.cpu_seconds, strict=True))
    figures = {
        "waiting at each gateway": topics,
        "idle: requests/s to the store": max(len(rows) for rows in idle_asked) / (after.at - before.at),
        "CPU, of one core %": idle_cpu / (after.at - before.at) * 100,
        "with records: requests/s to the store": max(map(len, asked)) / (load_after.at - load_before.at),
        **acknowledged(answers, load_before.at, load_after.at),
        **_wake_ups(answers.between(load_before.at, load_after.at), wakes, owners),
        "fetches refused": idle_wakes.refused_count + wakes.refused_count,
        "RSS most, MiB": rss_mib,
    }
    wanted = {
        "idle: requests/s to the store": 10,
        "wake-up at the committer, p99 ms": 50,
        "elsewhere, p99 ms": 1_100 if is_unheard else 100,
        "RSS most, MiB": RSS_MIB_MAX,
    }
    return Outcome(case=case, run=run, figures=figures, wanted=wanted)


def owner_of(names: Sequence[str], asked: Sequence[Array]) -> Array:
    """Return, for each topic, the gateway that commits it: with most commits to journals, or else to the topic; -1 if unknown."""
    if any(len(trace.puts(rows, "commit", "journal")) for rows in asked):
        return np.full(len(names), int(np.argmax(committers(asked))))
    found = {
        table: gateway
        for gateway, rows in enumerate(asked)
        for table in trace.puts(rows[rows["ok"] == 1], "commit", "topic")["table"].tolist()
    }
    return np.array([found.get(trace.table_of(name), -1) for name in names])


def _wake_ups(answers: Answers, wakes: Wakes, owners: Array) -> dict[str, Figure]:
    waits, rows = wakes.after_acknowledgement_ms(answers)
    owner, gateway = owners[wakes.topic[rows]], wakes.gateway[rows]
    at_owner, elsewhere = owner == gateway, (owner >= 0) & (owner != gateway)
    records = np.count_nonzero(answers.acknowledged().offset >= 0)
    return {
        "wake-up at the committer, p50 ms": percentile(waits[at_owner], 0.5),
        "wake-up at the committer, p99 ms": percentile(waits[at_owner], 0.99),
        "elsewhere, p50 ms": percentile(waits[elsewhere], 0.5),
        "elsewhere, p99 ms": percentile(waits[elsewhere], 0.99),
        "records not seen by both": int(2 * records - len(waits)),
    }
