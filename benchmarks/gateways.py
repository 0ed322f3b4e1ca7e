"""One, two and three gateways under the same load, on one directory store: the effect of the second and the third.

The clients know nothing of owners. Each connection sends to one topic through one gateway, so requests at the wrong gateway are
passed on. Every topic has equally many connections to each gateway, as far as their number allows. Every row has its own
topics, so that no log is longer than another.
"""

from __future__ import annotations

import contextlib
import re
import time
import urllib.request
from collections.abc import Iterator, Sequence

from benchmarks.bodies import json_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call, gateway
from benchmarks.produce import make_topic
from benchmarks.report import Table
from log_format.layout import commit_version, log_prefix
from log_format.stores import open_store
from log_format.topic.config import TopicConfig

GATEWAYS = (1, 2, 3)
TOPICS = (1, 8, 64)
CONNECTIONS = 128
"""Half of them are at the wrong gateway: fewer than it passes on to a peer at once (half of ``connections_max``)."""
RECORDS = 300
VALUE_BYTES = 100
SECONDS_MAX = 3.0
"""Seconds of each load: nine loads, with all starts, stay below a minute."""
MEET_SECONDS_MAX = 30
_SETTINGS = ("--heartbeat-ms", "500")
_PASSED_ON = re.compile(r'^tidelog_forwarded_requests_total\{outcome="answered"\} (\S+)$', re.MULTILINE)


def measure(store: str, seconds: float) -> Iterator[Table]:
    """One table: a row for each number of gateways and topics. The default ``flush.ms``."""
    flush_ms = TopicConfig.parse({}).integer("flush.ms")
    table = Table(
        f"Several gateways, directory store, JSON x {RECORDS:,} of {VALUE_BYTES} B over {CONNECTIONS} connections",
        [
            "gateways",
            "topics",
            "records/s",
            "CPU us/record (gateways)",
            "acknowledgement p50 ms",
            "p99 ms",
            "commits/s and topic",
            "1/flush.ms",
            "passed on",
            "other answers",
        ],
        notes=["All gateways and the load generator share this machine's cores: CPU per record says more than rates."],
    )
    with contextlib.ExitStack() as running:
        servers: list[Server] = []
        for count in GATEWAYS:
            servers.append(running.enter_context(gateway(store, settings=_SETTINGS)))
            meet(servers)
            for topic_count in TOPICS:
                topics = [f"{count}-gateways-{topic_count}-topics-{number}" for number in range(topic_count)]
                table.add(count, topic_count, *_row(servers, store, topics, seconds, flush_ms))
    yield table


def _row(servers: Sequence[Server], store: str, topics: Sequence[str], seconds: float, flush_ms: int) -> list[str]:
    for topic in topics:
        make_topic(servers[0].port, topic)
    requests = json_requests(RECORDS, VALUE_BYTES, variants=1, topics=topics)
    # A topic's first connection goes to one gateway, the second to the next, and so on.
    places = range(len(servers) * len(topics))
    ports = [servers[(place % len(topics) + place // len(topics)) % len(servers)].port for place in places]
    commits, passed_on, cpu_seconds = _commits(store, topics), _passed_on(servers), _cpu_seconds(servers)
    done = run_load(ports, requests, connections=CONNECTIONS, seconds=seconds)
    cpu_seconds = _cpu_seconds(servers) - cpu_seconds
    commits, passed_on = _commits(store, topics) - commits, _passed_on(servers) - passed_on
    records = done.answers * RECORDS
    return [
        f"{records / done.seconds:,.0f}",
        f"{cpu_seconds / max(1, records) * 1e6:.2f}",
        f"{done.percentile_ms(0.5):.0f}",
        f"{done.percentile_ms(0.99):.0f}",
        f"{commits / len(topics) / done.seconds:.1f}",
        f"{1000 / flush_ms:.1f}",
        f"{passed_on / max(1, sum(done.statuses.values())):.0%}",
        str(sum(count for status, count in done.statuses.items() if status != 200)),
    ]


def meet(servers: Sequence[Server]) -> None:
    """Wait until each gateway knows all others."""
    deadline = time.monotonic() + MEET_SECONDS_MAX
    while any(_known(server) < len(servers) for server in servers):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(servers)} gateways did not find each other in {MEET_SECONDS_MAX} s")
        time.sleep(0.1)


def _known(server: Server) -> int:
    gateways = call(server.port, "GET", "/v1/cluster")["gateways"]
    assert isinstance(gateways, list)
    return len(gateways)


def _commits(store: str, topics: Sequence[str]) -> int:
    """Commits in the logs of these topics."""
    opened = open_store(store)
    keys = (info.key for topic in topics for info in opened.list(log_prefix(topic)))
    return sum(commit_version(key) is not None for key in keys)


def _passed_on(servers: Sequence[Server]) -> float:
    """Requests that another gateway answered than the one that the client asked."""
    total = 0.0
    for server in servers:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
            found = _PASSED_ON.search(answer.read().decode())
        total += float(found.group(1)) if found else 0.0
    return total


def _cpu_seconds(servers: Sequence[Server]) -> float:
    return sum(server.cpu_seconds() for server in servers)
