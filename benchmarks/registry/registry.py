"""The schema registry: reads and registrations a second with their latencies, and memory and start with 100,000 schemas."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from benchmarks.harness import processes
from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.report import Table, held
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.schemas.changes import Compact, Decide
from log_format.schemas.decision import Decided
from log_format.schemas.row import SchemaRow, SchemasChanges, VersionRow
from log_format.schemas.schema import SchemaType
from log_format.schemas.state import SchemasState, schemas_table
from log_format.stores.local import LocalStore

CONNECTIONS: Final = 16
KNOWN: Final = 1_000
"""Schemas that are there before reads are measured."""
MANY: Final = 100_000
READS_MIN: Final = 2_000
REGISTRATIONS_MIN: Final = 100
MANY_MIB_MAX: Final = 200
SETTINGS: Final = ("--log-requests", "failures", "--schemas-bytes-max", str(1 << 30))
_Call = tuple[str, str, Any]
_TYPE: Final = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class _Many:
    """A decision that registers so many schemas of half a kilobyte, each in a subject of its own."""

    count: int
    subject: str = ""

    def decide(self, _state: SchemasState, _now_ms: int) -> Decided:
        """Return all of them."""
        numbers = range(self.count)
        return Decided(
            changes=SchemasChanges(
                schemas=tuple(
                    SchemaRow(id=one + 1, context="", type=SchemaType.AVRO, text=_text(f"Order{one}"))
                    for one in numbers
                ),
                versions=tuple(
                    VersionRow(subject=f"team-{one}.orders-value", version=1, id=one + 1) for one in numbers
                ),
            )
        )


class _Asked(NamedTuple):
    """A registry on this machine."""

    port: int
    path: str


def measure(options: Options) -> Iterator[Table]:
    """Yield two tables; before them one of another registry, if there is one beside."""
    if options.beside_registry:
        yield _beside(options.beside_registry, options.seconds)
    yield _requests(options.seconds)
    yield _memory()


def _beside(url: str, seconds: float) -> Table:
    """Measure the same calls at another registry on this machine, which has to be empty."""
    place = urlsplit(url)
    asked = _Asked(place.port or 80, place.path.rstrip("/"))
    with ThreadPoolExecutor(1) as one_after_another:  # so that ids are from 1
        list(one_after_another.map(partial(_register, asked), range(KNOWN)))
    table = Table(f"another registry, {CONNECTIONS} connections", ["call", "a second", "p50 ms", "p99 ms"])
    for name, call, _ in _calls():
        _load(asked, call, 0.5)
        spent = _load(asked, call, seconds)
        table.add(name, f"{len(spent) / seconds:,.0f}", *_percentiles(spent))
    return table


def _requests(seconds: float) -> Table:
    table = Table(
        f"schema registry, directory store, {CONNECTIONS} connections",
        ["call", "a second", "p50 ms", "p99 ms", "CPU µs a call", "bound"],
    )
    with tempfile.TemporaryDirectory() as place:
        _fill(Path(place), KNOWN)
        with processes.gateway(place, settings=SETTINGS) as server:
            asked = _Asked(server.port, "/registry")
            for name, call, least in _calls():
                _load(asked, call, 0.5)
                began_cpu = server.cpu_seconds()
                spent = _load(asked, call, seconds)
                cpu_us = (server.cpu_seconds() - began_cpu) / len(spent) * 1e6
                rate = len(spent) / seconds
                bound = f"≥ {least:,}: {held(rate >= least)}" if least else ""
                table.add(name, f"{rate:,.0f}", *_percentiles(spent), f"{cpu_us:,.0f}", bound)
    return table


def _calls() -> tuple[tuple[str, Callable[[], _Call], int], ...]:
    """Return the calls, each with the rate that it has to reach at least."""
    numbers = count()
    return (
        ("schema by id", lambda: ("GET", f"/schemas/ids/{next(numbers) % KNOWN + 1}", None), READS_MIN),
        ("latest version", lambda: ("GET", f"{_subject(next(numbers) % KNOWN)}/versions/latest", None), 0),
        (
            "lookup of a schema",
            lambda: ("POST", _subject(one := next(numbers) % KNOWN), {"schema": _text(f"Order{one}")}),
            0,
        ),
        (
            "registration, subjects of their own",
            lambda: ("POST", f"/subjects/new-{next(numbers)}/versions", {"schema": _text(f"New{next(numbers)}")}),
            REGISTRATIONS_MIN,
        ),
    )


def _percentiles(spent: Sequence[float]) -> tuple[str, str]:
    p50, p99 = (percentile_text([one * 1e3 for one in spent], part) for part in (0.5, 0.99))
    return p50, p99


def _register(asked: _Asked, number: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=60)
    _answered(connection, asked, ("POST", f"{_subject(number)}/versions", {"schema": _text(f"Order{number}")}))
    connection.close()


def _answered(connection: http.client.HTTPConnection, asked: _Asked, call: _Call) -> None:
    method, path, body = call
    data = None if body is None else json.dumps(body)
    connection.request(method, f"{asked.path}{path}", data, {"Content-Type": _TYPE})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text


def _load(asked: _Asked, call: Callable[[], _Call], seconds: float) -> list[float]:
    """Return the duration of each call that all connections make in so many seconds."""
    until = time.perf_counter() + seconds

    def client(_: int) -> list[float]:
        spent = []
        connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=60)
        while (began := time.perf_counter()) < until:
            _answered(connection, asked, call())
            spent.append(time.perf_counter() - began)
        connection.close()
        return spent

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return [one for each in pool.map(client, range(CONNECTIONS)) for one in each]


def _memory() -> Table:
    table = Table(
        f"schema registry, {MANY:,} schemas of half a kilobyte",
        ["schemas", "first answer s", "resident MiB", "MiB more", "bound"],
    )
    before = 0.0
    for number in (1, MANY):
        with tempfile.TemporaryDirectory() as place:
            _fill(Path(place), number)
            with processes.gateway(place, settings=SETTINGS) as server:
                began = time.perf_counter()
                processes.call(server.port, "GET", f"/registry/schemas/ids/{number}")
                taken = time.perf_counter() - began
                rss = _resident_mib(server.pid)
        more = rss - before
        bound = f"≤ {MANY_MIB_MAX}: {held(more <= MANY_MIB_MAX)}" if before else ""
        table.add(f"{number:,}", f"{taken:.1f}", f"{rss:,.0f}", f"{more:,.0f}" if before else "", bound)
        before = rss
    return table


def _resident_mib(pid: int) -> float:
    """Return the resident size as it is now, after a moment for what loading has freed."""
    time.sleep(2)
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _fill(place: Path, number: int) -> None:
    """Put so many schemas into the store's table."""
    ids = count()
    log = TableLog(LocalStore(place), schemas_table(), SystemClock())
    committer = Committer(log, new_id=lambda: f"{next(ids)}")
    committer.commit(Decide([_Many(number)], lambda: f"x{next(ids)}"))
    committer.commit(Compact(lambda: f"c{next(ids)}", files_min=1))


def _subject(number: int) -> str:
    return f"/subjects/team-{number}.orders-value"


def _text(name: str) -> str:
    fields = [{"name": f"field_{one}", "type": ["null", "string"], "default": None} for one in range(8)]
    return json.dumps({"type": "record", "name": name, "fields": fields}, separators=(",", ":"))
