"""Loads of small records on one default gateway."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.harness import trace
from benchmarks.topics.open_loop import Load, Plan
from benchmarks.topics.outcome import ACKNOWLEDGEMENT_MS_MAX, RSS_MIB_MAX, Options, Outcome, acknowledged
from benchmarks.topics.schedule import Stream, topic_count
from benchmarks.topics.site import Run, opened

HOT: Final = 10
_MIB_A_SECOND: Final = Stream(topics=HOT, per_second=16, records=64, value_bytes=1024)
"""To each topic."""

LOADS: Final[dict[str, Sequence[Stream]]] = {
    "10x1": (Stream(topics=10, per_second=1),),
    "100x1": (Stream(topics=100, per_second=1),),
    "1000x1": (Stream(topics=1_000, per_second=1),),
    "10000x0.1": (Stream(topics=10_000, per_second=0.1),),
    "200x20": (Stream(topics=200, per_second=20),),
    "200x2-of-10": (Stream(topics=200, per_second=2, records=10),),
    "1000x1-ten-hot": (_MIB_A_SECOND, Stream(first_topic=HOT, topics=990, per_second=1)),
}
"""``topics x requests a second``; a request has one record unless its name says more. ``1000x1-ten-hot``: ten get 1 MiB/s."""
_CPU_MS_MAX: Final = 1.2


def measure(case: str, run: Run, options: Options) -> Outcome:
    """Measure one load."""
    streams = LOADS[case]
    if options.topics is not None and len(streams) == 1:
        streams = (replace(streams[0], topics=options.topics),)
    with opened(run, settings=options.settings) as site:
        began = time.monotonic()
        names = site.make_topics(topic_count(streams))
        made = time.monotonic() - began
        seconds = options.warm_up_seconds + options.seconds
        load = Load(Plan(ports=site.ports, topics=names, streams=tuple(streams), seconds=seconds))
        before = site.sample_at(load.starts_at + options.warm_up_seconds)
        after = site.sample_at(load.ends_at)
        answers, _ = load.result()
        asked = site.asked(before.at, after.at)[0]
        rss_mib = site.rss_peak_mib()
    seconds = after.at - before.at
    count = max(1, answers.acknowledged_between(before.at, after.at))
    gateway_seconds = after.cpu_seconds[0] - before.cpu_seconds[0]
    store_seconds = after.store_cpu_seconds - before.store_cpu_seconds
    figures = {
        **acknowledged(answers, before.at, after.at),
        "CPU ms/request, gateway": gateway_seconds / count * 1000,
        "store": store_seconds / count * 1000,
        "both": (gateway_seconds + store_seconds) / count * 1000,
        "gateway, of one core %": gateway_seconds / seconds * 100,
        "generator, of one core %": answers.cpu_seconds / (load.plan.seconds) * 100,
        **trace.rates(asked, seconds),
        "RSS most, MiB": rss_mib,
        "connections": answers.connections,
        "topics made in s": made,
    }
    wanted: dict[str, float] = {"p99 ms": ACKNOWLEDGEMENT_MS_MAX, "not acknowledged": 0, "RSS most, MiB": RSS_MIB_MAX}
    if case == "1000x1":
        wanted |= {"both": _CPU_MS_MAX, "PUT/s": 20}
    return Outcome(case=case, run=run, figures=figures, wanted=wanted)
