"""One, two and three gateways: clients spread over them, and then all at one gateway that commits less than another.

The owner is the gateway with most commits, the receiver another. CPU for a MiB is what a process took beyond its idling, which is
measured before the first load and told, too: a gateway that does nothing else beats, and looks for what others left.
"""

from __future__ import annotations

from typing import Final

from benchmarks.topics.open_loop import Load, Plan
from benchmarks.topics.outcome import Figure, Options, Outcome, acknowledged
from benchmarks.topics.schedule import Stream
from benchmarks.topics.site import Run, Sample, Site, committers, opened

CASES: Final = {"gateways-1": 1, "gateways-2": 2, "gateways-3": 3}
TOPICS: Final = 20
IDLE_SECONDS: Final = 9.0
"""Three heartbeats: one of three looks for newcomers."""


def measure(case: str, run: Run, options: Options) -> Outcome:
    """Send half a MiB a second into each topic, in requests of 64 KiB."""
    stream = Stream(topics=options.topics or TOPICS, per_second=8, records=64, value_bytes=1024)
    seconds = options.warm_up_seconds + options.seconds
    count = CASES[case]
    with opened(run, count, is_relayed=count > 1) as site:
        names = site.make_topics(stream.topics)
        idle = site.sample()
        idle_end = site.sample_at(idle.at + IDLE_SECONDS)
        idling = [taken / IDLE_SECONDS for taken in _cpu_seconds(idle, idle_end)]
        load = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=seconds))
        before = site.sample_at(load.starts_at + options.warm_up_seconds)
        after = site.sample_at(load.ends_at)
        answers, _ = load.result()
        commits = committers(site.asked(before.at, after.at))
        took = after.at - before.at
        record_bytes = max(1, answers.bytes_between(before.at, after.at))
        cpu_seconds = _cpu_seconds(before, after)
        figures: dict[str, Figure] = {
            **acknowledged(answers, before.at, after.at),
            "records, MiB/s": record_bytes / took / 2**20,
            "between gateways, % of it": (after.relayed_bytes - before.relayed_bytes) / record_bytes * 100,
            "commits/s": sum(commits) / took,
            "of each gateway": _each([each / took for each in commits]),
            "CPU of each, of one core %": _each([each / took * 100 for each in cpu_seconds]),
            "of the store": (after.store_cpu_seconds - before.store_cpu_seconds) / took * 100,
            "of the relay": (after.relay_cpu_seconds - before.relay_cpu_seconds) / took * 100,
            "of the generator": answers.cpu_seconds / seconds * 100,
            **_aimed(site, names, stream, options, commits, idling),
        }
    wanted = {"between gateways, % of it": 1, "owner beside receiver %": 5, "not acknowledged": 0} if count > 1 else {}
    return Outcome(case=case, run=run, figures=figures, wanted=wanted)


def _aimed(
    site: Site, names: tuple[str, ...], stream: Stream, options: Options, commits: list[int], idling: list[float]
) -> dict[str, Figure]:
    """Send all requests to one gateway that is not the owner."""
    columns = (
        *("receiver, CPU ms/MiB", "owner, CPU ms/MiB", "owner beside receiver %"),
        *("idle owner, CPU ms/s", "owner beside receiver, idling of both counted %"),
    )
    if len(site.gateways) == 1:
        return dict.fromkeys(columns)
    owner = commits.index(max(commits))
    receiver = (owner + 1) % len(commits)
    seconds = options.warm_up_seconds + options.seconds
    load = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=seconds, receivers=(receiver,)))
    before = site.sample_at(load.starts_at + options.warm_up_seconds)
    after = site.sample_at(load.ends_at)
    answers, _ = load.result()
    took = after.at - before.at
    mib = max(1, answers.bytes_between(before.at, after.at)) / 2**20
    taken = _cpu_seconds(before, after)
    cpu_ms = [(each - idle * took) / mib * 1000 for each, idle in zip(taken, idling, strict=True)]
    figures = (
        *(cpu_ms[receiver], cpu_ms[owner], cpu_ms[owner] / cpu_ms[receiver] * 100),
        *(idling[owner] * 1000, taken[owner] / taken[receiver] * 100),
    )
    return dict(zip(columns, figures, strict=True))


def _cpu_seconds(before: Sample, after: Sample) -> list[float]:
    return [end - start for start, end in zip(before.cpu_seconds, after.cpu_seconds, strict=True)]


def _each(values: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)
