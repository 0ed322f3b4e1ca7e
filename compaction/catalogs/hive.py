"""A Hive Metastore, by Thrift (``pymetastore`` has its calls), without Kerberos or TLS.

A connection carries one call at a time, so each thread that asks takes one that is idle, or makes one. Calls are made that
Metastores have had since Hive 2. The Metastore looks at a table's directory when it creates the table, so it needs
access to the store.

Source: ``hive_metastore.thrift``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from compaction.catalogs.catalog import CatalogUnavailable, TableRefused, TableTaken
from compaction.catalogs.hive_parameters import (
    EXTERNAL_TABLE,
    INPUT_FORMAT,
    OUTPUT_FORMAT,
    SERDE,
    hive_parameters,
    serde_parameters,
)
from compaction.catalogs.network_words import network_words
from log_format.catalogs.table import DIGEST, ListedTable, TopicTable
from log_format.records.schema import RECORD_SCHEMA

PORT: Final = 9083
TIMEOUT_MS: Final = 60_000
PAGE: Final = 300
"""Tables that are asked for at a time."""
OWNER: Final = "tidelog"
_NO_STATISTICS: Final = {"DO_NOT_UPDATE_STATS": "true"}
"""Else the Metastore lists all files of the topic at each change."""


class HiveCatalog:
    """A database of a Hive Metastore."""

    has_hadoop_addresses = True
    parallelism = 4

    def __init__(self, host: str, port: int, database: str) -> None:
        self._address = (host, port)
        self._database = database
        self._idle: list[_Connection] = []

    @classmethod
    def at(cls, uri: str) -> HiveCatalog:
        """Return the database at ``thrift://host:9083/database`` (``default`` unless named). Raises ``ValueError``."""
        parts = urlsplit(uri)
        if parts.scheme != "thrift" or not parts.hostname:
            raise ValueError(f"--hive {uri!r} is no address: write thrift://host:{PORT}/database")
        return cls(parts.hostname, parts.port or PORT, parts.path.strip("/") or "default")

    @property
    def label(self) -> str:
        """What people call it, with its address."""
        return f"Hive Metastore database {self._database} at {self._address[0]}:{self._address[1]}"

    def list_tables(self) -> Iterator[ListedTable]:
        """Yield all tables of the database, as ``Catalog`` specifies."""
        self.close()  # what has been idle since the last run may be dead
        if self._call(lambda client: client.get_database(self._database)) is None:
            raise CatalogUnavailable(f"{self.label} does not exist: create the database first")
        names = self._call(lambda client: client.get_all_tables(self._database)) or []
        for first in range(0, len(names), PAGE):
            some = names[first : first + PAGE]
            found = self._call(partial(self._objects, some))
            yield from map(_listed, found or ())

    def get_table(self, name: str) -> ListedTable | None:
        """Return one table, or None."""
        found = self._call(lambda client: client.get_table(self._database, name))
        return None if found is None else _listed(found)

    def create(self, table: TopicTable) -> None:
        """Create the table."""
        self._call(lambda client: client.create_table(self._table(table, {})))

    def alter(self, table: TopicTable, before: ListedTable) -> None:
        """Alter the table.

        A Metastore refuses to change a column's type, also by a new member. Then the typed columns, which are the last ones, are
        dropped and added again. In between the table has no digest, so the next run goes on if this one is killed.
        """
        made = self._table(table, before.properties)
        try:
            self._alter(made)
        except TableRefused:
            narrow = self._table(table, before.properties)
            narrow.sd.cols = narrow.sd.cols[: len(RECORD_SCHEMA)]
            del narrow.parameters[DIGEST]
            self._alter(narrow)
            self._alter(made)

    def drop(self, name: str) -> None:
        """Drop the table, without its files."""
        self._call(lambda client: client.drop_table(self._database, name, False))

    def close(self) -> None:
        """Close idle connections; the next call makes a new one."""
        while self._idle:
            self._idle.pop().transport.close()

    def _objects(self, names: Sequence[str], client: Any) -> Any:
        return client.get_table_objects_by_name(self._database, names)

    def _alter(self, made: Any) -> None:
        self._call(lambda client: client.alter_table(self._database, made.tableName, made))

    def _table(self, table: TopicTable, before: Any) -> Any:
        storage = ttypes.StorageDescriptor(
            cols=[ttypes.FieldSchema(column.name, column.hive_type, column.comment) for column in table.columns],
            location=table.location,
            inputFormat=INPUT_FORMAT,
            outputFormat=OUTPUT_FORMAT,
            numBuckets=-1,
            serdeInfo=ttypes.SerDeInfo(serializationLib=SERDE, parameters=serde_parameters(table)),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        return ttypes.Table(
            tableName=table.name,
            dbName=self._database,
            owner=OWNER,
            tableType=EXTERNAL_TABLE,
            sd=storage,
            partitionKeys=[],
            parameters={**hive_parameters(table, before), **_NO_STATISTICS},
        )

    def _call(self, ask: Callable[[Any], Any]) -> Any:
        """Return the answer; None if there is no such thing."""
        connection = self._taken()
        try:
            answer = ask(connection.client)
        except (TTransportException, TProtocolException, OSError) as problem:
            connection.transport.close()
            raise CatalogUnavailable(f"{self.label} gives no answer: {network_words(problem)}") from problem
        except TException as problem:
            self._idle.append(connection)
            return self._refusal(problem)
        self._idle.append(connection)
        return answer

    def _taken(self) -> _Connection:
        """Return an idle connection, or a new one. Raises ``CatalogUnavailable``."""
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        try:
            return _Connection(*self._address)
        except (TTransportException, OSError) as problem:
            raise CatalogUnavailable(f"{self.label} can't be reached: {network_words(problem)}") from problem

    def _refusal(self, problem: TException) -> None:
        """Return if there is no such thing; otherwise raise what the Metastore says."""
        if isinstance(problem, ttypes.NoSuchObjectException):
            return
        what = f"{self.label}: {getattr(problem, 'message', None) or problem}"
        raise (TableTaken if isinstance(problem, ttypes.AlreadyExistsException) else TableRefused)(what) from problem


class _Connection:
    """A connection to a Metastore. Raises ``TTransportException``."""

    def __init__(self, host: str, port: int) -> None:
        socket = TSocket(host, port)
        socket.setTimeout(TIMEOUT_MS)
        self.transport = TBufferedTransport(socket)
        self.transport.open()
        self.client = ThriftHiveMetastore.Client(TBinaryProtocol(self.transport))


def _listed(table: Any) -> ListedTable:
    location = (table.sd.location if table.sd is not None else None) or ""
    return ListedTable(name=table.tableName, location=location, properties=table.parameters or {})
