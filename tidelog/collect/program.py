"""Assembly of an agent from its parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import start_http_server

from tidelog.bodies.encode import Compression
from tidelog.collect.agent import Agent
from tidelog.collect.collector import Collector, RecordRules
from tidelog.collect.counts import Counts
from tidelog.collect.delivery import Delivery
from tidelog.collect.file_follower import FileFollower
from tidelog.collect.journal import Journal, Level
from tidelog.collect.sink import GatewaySink
from tidelog.collect.state_file import StateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of an agent. ``metrics_port``: on 127.0.0.1, 0 for any free port, None for no metrics."""

    patterns: tuple[str, ...]
    topic: str
    state: Path
    from_end: bool = False
    follow_links: bool = False
    once: bool = False
    rules: RecordRules
    url: str | None = None
    token_file: Path | None = None
    compression: Compression | None = None
    metrics_port: int | None = None


@contextlib.contextmanager
def start(options: Options, journal: Journal, show: Callable[[Counts], None]) -> Iterator[Agent]:
    """Yield an agent that is ready to run; ``show`` is called about once a second while it runs.

    Raises ``StateFileError`` for an unusable state, ``OSError`` for an unusable port or state directory.
    """
    with contextlib.ExitStack() as stack:
        states = stack.enter_context(StateFile(options.state))
        state = states.load(options.topic)
        counts = Counts()
        if options.metrics_port is not None:
            server, thread = start_http_server(options.metrics_port, addr="127.0.0.1", registry=counts.registry)
            stack.callback(thread.join)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            journal.report(Level.INFO, "Metrics are served", url=f"http://127.0.0.1:{server.server_port}/metrics")
        follower = FileFollower(
            options.patterns,
            state.files,
            state.next_file_id,
            journal,
            from_end=options.from_end and not state.files,
            follow_links=options.follow_links,
            lose=counts.lost,
        )
        collector = Collector(options.topic, follower, options.rules)
        stack.callback(collector.close)
        sink = GatewaySink(
            options.url, options.topic, journal, compression=options.compression, token_file=options.token_file
        )
        delivery = Delivery(collector, sink, states, journal, counts)
        yield Agent(
            collector,
            delivery,
            sink,
            counts,
            journal,
            intent=state.intent,
            once=options.once,
            on_tick=lambda: show(counts),
        )
        journal.report(Level.INFO, "Ended", **counts.totals())
