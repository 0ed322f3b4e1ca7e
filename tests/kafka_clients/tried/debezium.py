"""Debezium's connector for PostgreSQL on distributed Connect with exactly-once sources."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tests.kafka_clients.tried.postgres import Postgres, postgres
from tests.kafka_clients.tried.programs import Failed, Missing, Running, expect, java, kept, properties, until
from tests.support.server_process import free_port

_ROWS: Final = 300
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
TOPIC: Final = "dbz.shop.orders"
"""In which the changes of the table shop.orders come."""
_QUIET_SECONDS: Final = 3
Change = tuple[str | None, ...]
"""Operation (r: snapshot, c, u, d, or none: the tombstone behind a deletion), id, amount, note."""


def changes(servers: str, directory: Path) -> str:
    """Exactly once: a snapshot, changes, a new column, a worker that is killed: each change comes once, in order."""
    if not (kept() / "plugins-debezium").exists():
        raise Missing("no Debezium: make kafka-clients gets it by Maven")
    with postgres(directory) as database:
        database.do(
            "create schema shop",
            "create table shop.orders (id bigint primary key, amount int)",
            "alter table shop.orders replica identity full",
            f"insert into shop.orders select n, 0 from generate_series(1, {_ROWS}) n",
        )
        worker = Worker(servers, directory)
        return _followed(servers, directory, database, worker)


def _followed(servers: str, directory: Path, database: Postgres, worker: Worker) -> str:
    reader = _Reader(servers)
    wanted: list[Change] = [("r", str(number), "0", None) for number in range(1, _ROWS + 1)]
    with worker.running() as running:
        started = time.monotonic()
        worker.make(connector(database), running)
        snapshot = reader.reads(wanted, running) - started
        started = time.monotonic()
        database.do("update shop.orders set amount = 1")
        wanted += [("u", str(number), "1", None) for number in range(1, _ROWS + 1)]
        updates = reader.reads(wanted, running) - started
        database.do("insert into shop.orders values (1000, 7)", "delete from shop.orders where id = 1000")
        wanted += [("c", "1000", "7", None), ("d", "1000", "7", None), (None, "1000", None, None)]
        database.do("alter table shop.orders add column note text", "update shop.orders set note = 'new' where id = 1")
        wanted.append(("u", "1", "1", "new"))
        reader.reads(wanted, running)
        # The worker is killed amid changes, each of which is a transaction of its own.
        several = [f"update shop.orders set note = '{number}' where id = 2" for number in range(_ROWS)]
        with database.doing([f"{one}; select pg_sleep(0.01)" for one in several], directory / "changes.log") as doing:
            before = len(wanted)
            wanted += [("u", "2", "1", str(number)) for number in range(_ROWS)]
            until(lambda: reader.has_more_than(before), "changes under way", running)
            running.stop(kill=True)
            until(doing.is_over, "all changes")
    with worker.running() as running:
        reader.reads(wanted, running)
        database.do("update shop.orders set amount = 9 where id = 3")
        wanted.append(("u", "3", "9", None))
        reader.reads(wanted, running)
    return f"{_ROWS} rows: {snapshot:.1f} s after the connector was made; updated: {updates:.1f} s after the commit"


def connector(database: Postgres, *, is_exactly_once: bool = True) -> dict[str, object]:
    """Its settings."""
    exactly_once = {"exactly.once.support": "required"} if is_exactly_once else {}
    return exactly_once | {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": 1,
        "database.hostname": "127.0.0.1",
        "database.port": database.port,
        "database.user": "postgres",
        "database.password": "postgres",
        "database.dbname": "postgres",
        "topic.prefix": "dbz",
        "table.include.list": "shop.orders",
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "topic.creation.default.replication.factor": 1,
        "topic.creation.default.partitions": 1,
    }


class Worker:
    """Of distributed Connect. It is started any number of times."""

    def __init__(
        self, servers: str, directory: Path, *, is_exactly_once: bool = True, more: Mapping[str, object] | None = None
    ) -> None:
        """``more``: settings that go before its own."""
        self._address = f"http://127.0.0.1:{(port := free_port())}"
        self._log = directory / "connect.log"
        storage = {f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")}
        copies = {f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")}
        self._settings = properties(
            directory / "worker.properties",
            {
                "bootstrap.servers": servers,
                "group.id": "connect",
                **storage,
                **copies,
                "exactly.once.source.support": "enabled" if is_exactly_once else "disabled",
                "key.converter": _JSON,
                "value.converter": _JSON,
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                "listeners": f"http://127.0.0.1:{port}",
                "plugin.path": kept() / "plugins-debezium",
                "plugin.discovery": "service_load",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 2000,
                "scheduled.rebalance.max.delay.ms": 1000,
                **(more or {}),
            },
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[Running]:
        """It runs, and takes requests."""
        command = java("org.apache.kafka.connect.cli.ConnectDistributed", self._settings, options=("-Xmx512m",))
        with Running(command, self._log) as running:
            until(lambda: self._answer("/connectors") is not None, "Connect", running)
            yield running

    def make(self, settings: Mapping[str, object], running: Running, name: str = "orders") -> None:
        """Make the connector, or give it these settings."""
        given = json.dumps(settings).encode()
        until(partial(self._is_made, f"/connectors/{name}/config", given), "the connector", running)

    def failure(self, name: str = "orders") -> str:
        """Why the connector's task failed; nothing while it has not."""
        told = self._answer(f"/connectors/{name}/status")
        tasks = told["tasks"] if isinstance(told, dict) else []
        return str(tasks[0].get("trace", "")) if tasks else ""

    def _is_made(self, path: str, given: bytes) -> bool:
        return self._answer(path, given) is not None

    def _answer(self, path: str, given: bytes | None = None) -> object:
        """None: none yet. Raises ``Failed`` where the request is refused for good."""
        method = "GET" if given is None else "PUT"
        request = urllib.request.Request(
            self._address + path, given, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as problem:
            if problem.code not in (404, 409, 500, 503):
                raise Failed(f"{problem.code}: {problem.read()[:300]!r}") from None
        except OSError:
            pass
        return None


class _Reader:
    """Reads what is committed, from the first change on."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self._found: list[Change] = []

    def reads(self, wanted: list[Change], running: Running) -> float:
        """When the last of the changes came. Raises ``Failed`` where not exactly these come, in their order."""
        until(lambda: self.has_more_than(len(wanted) - 1), f"{len(wanted)} changes", running)
        came = time.monotonic()
        ends = came + _QUIET_SECONDS
        while time.monotonic() < ends:
            self._poll()
        found = self._found
        if found != wanted:
            first = next(
                (n for n, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), len(wanted)
            )
            of = f"{len(found)} of {len(wanted)} changes, from {first} on"
            expect(found[first : first + 5], wanted[first : first + 5], of)
        return came

    def has_more_than(self, count: int) -> bool:
        """Whether more changes than so many have come."""
        self._poll()
        return len(self._found) > count

    def _poll(self) -> None:
        for message in self._consumer.consume(1000, 0.2):
            if message.error() is None:
                self._found.append(_change(message.key(), message.value()))


def _change(key: bytes | None, value: bytes | None) -> Change:
    assert key is not None
    told = None if value is None else json.loads(value)
    if told is None:
        return None, str(json.loads(key)["id"]), None, None
    row = told["after"] or told["before"]
    return told["op"], str(row["id"]), str(row["amount"]), row.get("note")
