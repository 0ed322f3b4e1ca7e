"""Topics of a store made by the format's own committer, and catalogs to which they are synced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa

from compaction.catalogs.catalog import Catalog, CatalogUnavailable, TableTaken
from compaction.catalogs.sync import CatalogSync
from compaction.catalogs.topics import Topics
from log_format.catalogs.table import ListedTable, TopicTable, altered_properties
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteTopic
from log_format.topic.config import TopicConfig
from tests.support.clocks import ManualClock
from tests.support.collected_events import CollectedEvents

ORDERS = TypedColumns(pa.struct([pa.field("sku", pa.string()), pa.field("price", pa.decimal128(12, 2))]), None)
MORE_ORDERS = TypedColumns(
    pa.struct([*ORDERS.fields()[0].type, pa.field("lines", pa.list_(pa.field("element", pa.int64())))]), None
)


class MemoryCatalog:
    """A catalog in memory. ``calls_left``: after so many changes it is gone; None: never."""

    label = "memory"
    has_hadoop_addresses = False
    parallelism = 1

    def __init__(self) -> None:
        self.tables: dict[str, ListedTable] = {}
        self.comments: dict[str, str] = {}
        self.calls_left: int | None = None
        self.changes: list[str] = []

    def list_tables(self) -> Iterator[ListedTable]:
        yield from list(self.tables.values())

    def get_table(self, name: str) -> ListedTable | None:
        return self.tables.get(name)

    def create(self, table: TopicTable) -> None:
        self._change(f"create {table.name}")
        if table.name in self.tables:
            raise TableTaken(table.name)
        self._put(table, table.properties)

    def alter(self, table: TopicTable, before: ListedTable) -> None:
        self._change(f"alter {table.name}")
        self._put(table, altered_properties(before.properties, table))

    def drop(self, name: str) -> None:
        self._change(f"drop {name}")
        self.tables.pop(name, None)

    def _put(self, table: TopicTable, properties: Mapping[str, str]) -> None:
        self.tables[table.name] = ListedTable(name=table.name, location=table.location, properties=dict(properties))

    def _change(self, what: str) -> None:
        if self.calls_left == 0:
            raise CatalogUnavailable("the catalog is gone")
        self.calls_left = None if self.calls_left is None else self.calls_left - 1
        self.changes.append(what)


@dataclass
class CatalogBench:
    """A store of topics, and what is synced from it. ``uri``: its address for readers, if not the store's. ``numbers``: of the
    ids."""

    store: ObjectStore = field(default_factory=MemoryStore)
    uri: str | None = None
    clock: ManualClock = field(default_factory=ManualClock)
    numbers: Any = field(default_factory=lambda: count(1))
    report: CollectedEvents = field(default_factory=CollectedEvents)

    def create(self, topic: str, columns: TypedColumns = NO_TYPED_COLUMNS, **config: Any) -> None:
        """Settings have underscores for dots."""
        settings = TopicConfig.parse({name.replace("_", "."): value for name, value in config.items()})
        made = CreateTopic(name=topic, partition_count=1, config=settings, topic_id=self._new_id())
        self._commit(topic, replace(made, columns=columns))

    def alter(self, topic: str, columns: TypedColumns = NO_TYPED_COLUMNS, **config: Any) -> None:
        """Settings have underscores for dots; None restores the default."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self._commit(topic, AlterTopic(partition_count=None, config=settings, columns=columns))

    def delete(self, topic: str) -> None:
        self._commit(topic, DeleteTopic())

    def sync_to(self, catalog: Catalog) -> CatalogSync:
        """A sync by a process that has just started."""
        return CatalogSync(Topics(self.store, self.clock), catalog, self.report, store_uri=self.uri or self.store.uri)

    def _commit(self, topic: str, change: Any) -> None:
        log = TopicLog(self.store, topic, self.clock)
        log.refresh()
        Committer(log, new_id=self._new_id, jitter=lambda: 1.0).commit(change)

    def _new_id(self) -> str:
        return f"id-{next(self.numbers)}"
