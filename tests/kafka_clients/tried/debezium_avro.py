"""Debezium with Confluent's AvroConverter: its schemas are in a registry, and of a gateway its topics are typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from tests.kafka_clients.tried.debezium import Worker, connector
from tests.kafka_clients.tried.postgres import Postgres, postgres
from tests.kafka_clients.tried.programs import Missing, Running, expect, expect_in, kept, until
from tests.kafka_clients.tried.typed_clients import GATEWAYS, columns, registry_of

_ROWS: Final = 200
_CONVERTER: Final = "io.confluent.connect.avro.AvroConverter"
_TOPIC: Final = "avro.shop.orders"
_LATER: Final = f"{_TOPIC}.later"
"""Gets the changes from the one on that gave a column another type."""


class Change(NamedTuple):
    """Of a row: operation (none: the tombstone behind a deletion), and what the row is then."""

    op: str | None
    id: int
    amount: int | None = None
    price: str | None = None
    note: str | None = None
    quantity: int | None = None


def changes(servers: str, directory: Path) -> None:
    """Confluent's AvroConverter, a typed topic by Connect: columns come and go; another type is refused by name; a sink."""
    if not (kept() / "plugins-confluent").exists():
        raise Missing("no converters: make kafka-clients gets them by Maven")
    with postgres(directory) as database, registry_of(servers, directory) as url:
        database.do(
            "create schema shop",
            # A money has no precision in Connect: its schema says 64 digits.
            "create table shop.orders (id bigint primary key, amount int not null, price numeric(10,2), fee money)",
            "alter table shop.orders replica identity full",
            f"insert into shop.orders select n, n, n / 4.0 from generate_series(1, {_ROWS}) n",
        )
        worker = Worker(servers, directory, more=_converters(url))
        with worker.running() as running:
            _Followed(servers, url, database, worker, running).follow(directory)


def _converters(url: str) -> Mapping[str, object]:
    of = {"converter": _CONVERTER, "converter.schema.registry.url": url}
    return {f"{part}.{name}": value for part in ("key", "value") for name, value in of.items()} | {
        "plugin.path": ",".join(f"{kept()}/{name}" for name in ("plugins-debezium", "plugins-confluent", "plugins")),
        # Confluent's converters of 7.0 say nothing of themselves in their jars.
        "plugin.discovery": "hybrid_warn",
    }


class _Followed:
    """A connector that runs, and what must come of it."""

    def __init__(self, servers: str, url: str, database: Postgres, worker: Worker, running: Running) -> None:
        self._servers, self._url = servers, url
        self._database, self._worker, self._running = database, worker, running
        self._is_typed = servers in GATEWAYS
        self._wanted: list[Change] = []
        self._settings = connector(database) | {"topic.prefix": "avro", "time.precision.mode": "connect"}

    def follow(self, directory: Path) -> None:
        """Raises ``Failed``."""
        self._worker.make(self._settings | self._creation(_TOPIC), self._running)
        self._come(*(Change("r", n, n, f"{n / 4:.2f}") for n in range(1, _ROWS + 1)))
        self._columns_come_and_go()
        self._columns_are(_TOPIC, self._wanted)
        before = len(self._wanted)
        self._database.do("alter table shop.orders alter amount type bigint", "insert into shop.orders values (600, 6)")
        last = Change("c", 600, 6, None, None, 5)
        if self._is_typed:
            self._goes_on_elsewhere(last)
        else:
            self._come(last)
        self._is_read_by_a_sink(directory / "sink.txt", before + 1)

    def _columns_come_and_go(self) -> None:
        do = self._database.do
        do("alter table shop.orders add note text", "update shop.orders set note = 'new' where id = 1")
        self._come(Change("u", 1, 1, "0.25", "new"))
        do("alter table shop.orders add quantity int not null default 5", "insert into shop.orders values (500, 1)")
        self._come(Change("c", 500, 1, None, None, 5))
        do("delete from shop.orders where id = 500", "alter table shop.orders drop price")
        do("insert into shop.orders values (501, 2)")
        self._come(Change("d", 500, 1, None, None, 5), Change(None, 500), Change("c", 501, 2, None, None, 5))

    def _goes_on_elsewhere(self, last: Change) -> None:
        until(lambda: bool(self._worker.failure()), "the refusal", self._running)
        expect_in("before.amount is int64, and its column is int32. A column keeps its type", self._worker.failure())
        renamed = {
            "transforms": "later",
            "transforms.later.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.later.regex": re.escape(_TOPIC),
            "transforms.later.replacement": _LATER,
        }
        self._worker.make(self._settings | renamed | self._creation(_LATER), self._running)
        until(lambda: _read(self._servers, self._url, _LATER, 1) == [last], "the changes behind it", self._running)
        self._columns_are(_LATER, [last])

    def _creation(self, topic: str) -> dict[str, object]:
        """Connect makes a topic when it has its first record, whose schemas it has registered then."""
        if not self._is_typed:
            return {}
        return {
            "topic.creation.groups": "typed",
            "topic.creation.typed.include": re.escape(topic),
            "topic.creation.typed.tidelog.key.schema": f"{topic}-key",
            "topic.creation.typed.tidelog.value.schema": f"{topic}-value",
        }

    def _come(self, *changes: Change) -> None:
        self._wanted += changes
        count = len(self._wanted)
        until(lambda: len(_read(self._servers, self._url, _TOPIC, count)) >= count, f"{count} changes", self._running)
        found = _read(self._servers, self._url, _TOPIC, count + 1)
        expect(found[-len(changes) :], list(changes), "the newest changes")
        expect(len(found), count, "number of changes")

    def _columns_are(self, topic: str, wanted: list[Change]) -> None:
        if not self._is_typed:
            return
        row = "(coalesce(data.after, data.before))"
        # The columns that the topic of the changed type does not have.
        price = f"cast({row}.price as varchar)" if topic == _TOPIC else "null"
        members = f"data.op, key_data.id, {row}.amount, {price}, {row}.note, {row}.quantity"
        rows = columns(self._url, f'select {members} from "{topic}" order by "offset"')
        expect([Change(*one) for one in rows], wanted, f"columns of {topic}")

    def _is_read_by_a_sink(self, path: Path, count: int) -> None:
        settings = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "tasks.max": 1,
            "topics": f"{_TOPIC},{_LATER}" if self._is_typed else _TOPIC,
            "file": str(path),
            "consumer.override.auto.offset.reset": "earliest",
        }
        self._worker.make(settings, self._running, "sink")
        until(lambda: path.exists() and len(path.read_text().splitlines()) >= count, "the sink", self._running)
        lines = path.read_text().splitlines()
        expect(len(lines), count, "lines of the sink")
        expect(sum("note=new" in line for line in lines), 1, "lines with the new column")


def _read(servers: str, url: str, topic: str, count: int) -> list[Change]:
    """The first so many, or those that there are after a second without another."""
    decode = AvroDeserializer(SchemaRegistryClient({"url": url}))
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    found: list[Change] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while len(found) < count and (messages := consumer.consume(count - len(found), 1)):
            found += [
                _change(decode(one.key(), None), decode(one.value(), None)) for one in messages if one.error() is None
            ]
    finally:
        consumer.close()
    return found


def _change(key: Mapping[str, int], value: Mapping[str, object] | None) -> Change:
    if value is None:
        return Change(None, key["id"])
    row = value["after"] or value["before"]
    assert isinstance(row, Mapping)
    price = row.get("price")
    shown = None if price is None else str(price)
    return Change(str(value["op"]), key["id"], row["amount"], shown, row.get("note"), row.get("quantity"))
