"""Readers of history beside small traffic: what they get, and what the others feel.

Four readers read old records of 1 KiB in a loop, each a partition of its own, 8 MiB a request. Beside them records are produced,
read at the tail, and a group's member heartbeats. The ways of reading take turns, and one of them is not to read. *Elsewhere*
the readers are at a second gateway of the machine: what they cost the others by the processors that all share. *Bare* they read
the same objects and throw them away: what the store gives.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from benchmarks.fetch.history_readers import (
    ARROW_GZIP,
    ARROW_ZSTD,
    AS_LIBRARIES,
    FETCHED_BYTES,
    PARTITION_RECORDS,
    READERS,
    VALUE_BYTES,
    Clients,
    Read,
    Work,
    bare,
    by_http,
    by_plan,
)
from benchmarks.fetch.rounds import P99, Costs, Round, by_gibibyte, latency, rate, ratio
from benchmarks.fetch.small_traffic import KINDS, PAUSE_S, TOPIC, Span, small_traffic
from benchmarks.harness.bodies import ARROW, arrow_body, values_of
from benchmarks.harness.load import ask_all, request
from benchmarks.harness.metrics import metrics
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import BEFORE, Spread, in_turns
from benchmarks.harness.processes import Server, call, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each

REQUEST_RECORDS: Final = 4_096
STAND_S: Final = 0.3
"""From telling all processes to the begin of their work."""
WARM_S: Final = 1.0
"""Not counted: connections, plans, a group's first round."""
HERE: Final = "here"
ELSEWHERE: Final = "elsewhere"


@dataclass(frozen=True)
class Way:
    """How history is read, and at which gateway. ``read``: None: not at all. Small traffic is never elsewhere."""

    name: str
    read: Read | None
    at: str = HERE
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def small_traffic_at(self) -> str:
        """The gateway whose small traffic is measured."""
        return BEFORE if self.at == BEFORE else HERE


NOBODY: Final = Way("nobody", None)
LANE: Final = Way("lane, gzip", by_http, headers=ARROW_GZIP)
PLAN: Final = Way("plan", by_plan)
WAYS: Final = (
    NOBODY,
    Way("lane, JSON, gzip", by_http, headers=AS_LIBRARIES),
    LANE,
    Way("lane, zstd", by_http, headers=ARROW_ZSTD),
    PLAN,
    replace(LANE, at=ELSEWHERE),
    replace(PLAN, at=ELSEWHERE),
    Way("bare", bare, ELSEWHERE),
)
WAYS_BEFORE: Final = tuple(replace(way, at=BEFORE) for way in (NOBODY, LANE, PLAN))


@dataclass(frozen=True)
class Site:
    """A gateway, and its store's URI."""

    server: Server
    uri: str


def measure(options: Options) -> Iterator[Table]:
    """Yield one table for each store: each content and way, ``seconds`` a round."""
    for place in each(options.store):
        with place.reached():
            yield _measured(place, options)


def _measured(place: Store, options: Options) -> Table:
    rounds, seconds = options.rounds, options.seconds
    table = Table(
        f"{READERS} readers of history beside small traffic, 1 KiB values, 8 MiB a request, {place.label}",
        [
            "values",
            "read by",
            "MiB/s together",
            "CPU s/GiB: gateway (without small traffic), its readers, store, clients",
            "produce: p50 ms",
            *(part for kind in KINDS for part in (f"{kind}: p99 ms", "by nobody's", "by elsewhere's")),
            "load average",
        ],
    )
    ways = WAYS if options.beside is None else (*WAYS, *WAYS_BEFORE)
    trees = {HERE: None, ELSEWHERE: None} | ({} if options.beside is None else {BEFORE: options.beside})
    for content in options.values:
        with contextlib.ExitStack() as stack:
            sites = {name: _site(stack, f"{place.uri}/{name}", content, name, tree) for name, tree in trees.items()}
            turns = _Turns(stack, sites, place.servers, ways, content, seconds)
            found = turns.measured(rounds)
        for way in ways:
            table.add(*_row(content, way, found))
    table.notes.append(
        f"Each way {rounds} times for {seconds:g} s, alternately; the median round, and the lowest and the highest."
        " Ratios compare rounds of the same turn. Lane: one reader, as by default; JSON, gzip: the default headers of requests,"
        " aiohttp and httpx; gzip, zstd: Arrow. Plan: Tidelog's consumer in four processes; values that are too small for a plan"
        " go through the lane. Clients of readers give way to all other processes (SCHED_IDLE). Elsewhere: the same readers at a"
        " second gateway (nice 10) on the machine, which the others don't use. Bare: the same objects, read and discarded."
        f" Produce: {1 / PAUSE_S:.0f} requests a second with 10 records each, until acknowledged; tail: from sending to"
        " a waiting fetch."
    )
    return table


def _row(content: str, way: Way, found: Mapping[Way, list[Round]]) -> list[str]:
    rounds = found[way]
    nobody = found[replace(NOBODY, at=way.small_traffic_at)]
    elsewhere = found.get(replace(way, at=ELSEWHERE))
    costs = by_gibibyte(rounds, nobody if way.at != ELSEWHERE else [_of_the_store(each) for each in nobody])
    named = way.name if way.at == HERE else f"{way.name}, {way.at}"
    cells = [content, named]
    if costs is None:
        cells += ["", f"({sum(each.costs.gateway for each in rounds):.1f} s in all)"]
    else:
        parts = (costs.gateway, costs.readers, costs.store, costs.clients)
        cells += [rate(rounds).text(0), ", ".join(f"{part:.1f}" for part in parts)]
    cells.append(latency(rounds, "produce", 0.5).text(1))
    for kind in KINDS:
        cells.append(latency(rounds, kind, P99).text(1))
        cells.append("" if way.read is None else ratio(rounds, nobody, kind).text(2))
        cells.append("" if elsewhere is None or way.at == ELSEWHERE else ratio(rounds, elsewhere, kind).text(2))
    return [*cells, Spread([each.load_average for each in rounds]).text(1)]


def _of_the_store(alone: Round) -> Round:
    return replace(alone, costs=replace(alone.costs, gateway=0.0, readers=0.0))


class _Turns:
    """All processes of one content; each way's wait for their turn."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        sites: Mapping[str, Site],
        servers: Sequence[Server],
        ways: Sequence[Way],
        content: str,
        seconds: float,
    ) -> None:
        self._sites = sites
        self._servers = servers
        self._ways = ways
        self._content = content
        self._seconds = seconds
        self._traffic = {
            name: stack.enter_context(contextlib.closing(small_traffic(site.server.port)))
            for name, site in sites.items()
            if name != ELSEWHERE
        }
        reads = dict.fromkeys(way.read for way in ways if way.read is not None)
        self._clients = {read: stack.enter_context(contextlib.closing(Clients(read))) for read in reads}

    def measured(self, rounds: int) -> dict[Way, list[Round]]:
        """Measure so many rounds of each way, in turns."""
        return in_turns({way: partial(self._round, way) for way in self._ways}, rounds)

    def _round(self, way: Way) -> Round:
        site = self._sites[way.at]
        topic = _topic(self._content)
        if way.read in (by_http, by_plan):
            _wait_for_reader(site.server, topic)
        begin = time.monotonic() + STAND_S
        span = Span(begin, begin + WARM_S, begin + WARM_S + self._seconds)
        traffic = self._traffic[way.small_traffic_at]
        clients = None if way.read is None else self._clients[way.read]
        traffic.begin(span)
        if clients is not None:
            # By the plan's URLs where there are any.
            own = site.uri if site.uri.startswith("file:") else None
            clients.begin(Work(site.server.port, topic, span, own, way.headers))
        time.sleep(span.counted_from - time.monotonic())
        before = self._spent(site)
        time.sleep(span.until - time.monotonic())
        after = self._spent(site)
        read_bytes, client_cpu = (0, 0.0) if clients is None else clients.result()
        gateway, readers, store = (end - start for end, start in zip(after, before, strict=True))
        return Round(
            self._seconds, traffic.result(), Costs(gateway, readers, store, client_cpu), read_bytes, os.getloadavg()[0]
        )

    def _spent(self, site: Site) -> tuple[float, float, float]:
        """Return CPU seconds so far: of the gateway, its readers, the store."""
        store_seconds = sum(each.cpu_seconds() for each in self._servers)
        return site.server.cpu_seconds(), site.server.children_cpu_seconds(), store_seconds


def _site(stack: contextlib.ExitStack, uri: str, content: str, name: str, tree: Path | None) -> Site:
    """Fill a store, and start a gateway on it."""
    with gateway(uri, directory=tree) as filling:
        _fill(filling.port, content)
    settings = ("--log-level", "warning")
    nice = 10 if name == ELSEWHERE else 0
    server = stack.enter_context(gateway(uri, None, settings, tree, nice=nice))
    if name != ELSEWHERE and TOPIC not in str(call(server.port, "GET", "/v1/topics")):
        make_topic(server.port, TOPIC, 1, config={"flush.ms": 5, "commit.mode": "own"})
    return Site(server, uri)


def _topic(content: str) -> str:
    return "old-" + content.replace(" ", "-")


def _fill(port: int, content: str) -> None:
    topic = _topic(content)
    make_topic(port, topic, READERS, config={"flush.bytes": FETCHED_BYTES, "commit.mode": "own"})
    for number in range(PARTITION_RECORDS // REQUEST_RECORDS):
        values = pa.table({"value": pa.array(values_of(content, REQUEST_RECORDS, VALUE_BYTES, number), pa.binary())})
        body = arrow_body(values)
        sent = [
            request("POST", f"/v1/topics/{topic}/partitions/{partition}/records", body, {"Content-Type": ARROW})
            for partition in range(READERS)
        ]
        assert ask_all(port, sent, 2) == {200: READERS}


def _wait_for_reader(server: Server, topic: str) -> None:
    """Fetch from far behind the tail until the gateway has a reader of history."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", f"/v1/topics/{topic}/partitions/0/records?offset=0&max_bytes=1000000")
        connection.getresponse().read()
        if metrics(server.port).total("tidelog_history_readers"):
            return
        time.sleep(0.1)
    raise RuntimeError("no reader of history came")
