"""The gateway that commits most is killed while a load goes to the other: the time until requests are acknowledged as before."""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from benchmarks.harness.percentiles import percentile
from benchmarks.topics.answers import ACKNOWLEDGED, Answers
from benchmarks.topics.open_loop import Load, Plan
from benchmarks.topics.outcome import Figure, Options, Outcome
from benchmarks.topics.schedule import Stream
from benchmarks.topics.site import Run, committers, opened

TOPICS: Final = 1_000
FIND_SECONDS: Final = 5.0
AFTER_SECONDS: Final = 15.0
SLOW_MS: Final = 1_000
SECONDS_MAX: Final = 5


def measure(case: str, run: Run, options: Options) -> Outcome:
    """Kill the gateway with most commits of two, under one record a second and topic."""
    stream = Stream(topics=options.topics or TOPICS, per_second=1)
    with opened(run, 2) as site:
        names = site.make_topics(stream.topics)
        finding = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=FIND_SECONDS))
        finding.result()
        commits = committers(site.asked(finding.starts_at, time.monotonic()))
        owner = commits.index(max(commits))
        seconds = options.warm_up_seconds + options.seconds + AFTER_SECONDS
        other = (1 - owner,)
        load = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=seconds, receivers=other))
        killed_at = site.sample_at(load.starts_at + options.warm_up_seconds + options.seconds).at
        site.gateways[owner].server.kill()
        answers, _ = load.result()
    before = answers.between(load.starts_at + options.warm_up_seconds, killed_at - 1)
    figures = {
        "commits of the killed and the other": f"{commits[owner]:,} / {commits[1 - owner]:,}",
        "before: p50 ms": percentile(before.latency_ms(), 0.5),
        "p99 ms": percentile(before.latency_ms(), 0.99),
        "not acknowledged": sum(before.refused().values()),
        **_after(answers, killed_at, load.ends_at),
    }
    return Outcome(case=case, run=run, figures=figures, wanted={"slow or refused until, s": SECONDS_MAX})


def _after(answers: Answers, killed_at: float, end: float) -> dict[str, Figure]:
    chosen = answers.between(killed_at, end)
    return {
        **recovery(answers.between(killed_at - 1, end), killed_at),
        "after: p50 ms": percentile(chosen.latency_ms(), 0.5),
        "after: p99 ms": percentile(chosen.latency_ms(), 0.99),
        "after: not acknowledged": sum(chosen.refused().values()),
        "by code": ", ".join(f"{code} {count}" for code, count in chosen.refused().items()),
    }


def recovery(answers: Answers, killed_at: float) -> dict[str, float]:
    """Return seconds from the kill until every topic had a later request acknowledged, and until none was slow or refused.

    Infinite where that did not come: also when a request of the last second was slow or refused.
    """
    good = answers.code == ACKNOWLEDGED
    is_later = good & (answers.due >= killed_at)
    first = np.full(int(answers.topic.max(initial=-1)) + 1, np.inf)
    np.minimum.at(first, answers.topic[is_later], answers.done[is_later])
    ends = np.where(good, answers.done, answers.due)
    is_bad = ~good | ((answers.done - answers.due) * 1000 > SLOW_MS)
    ends[is_bad & (answers.due > answers.due.max(initial=0) - 1)] = np.inf
    return {
        "every topic acknowledged after, s": float(first[np.unique(answers.topic)].max(initial=killed_at)) - killed_at,
        "slow or refused until, s": float(ends[is_bad].max(initial=killed_at)) - killed_at,
    }
