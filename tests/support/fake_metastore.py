"""A Hive Metastore in this process: Thrift's processor, as it is made from ``hive_metastore.thrift``, over tables in memory.

It does what a real one was seen to do: it refuses another type of a column, folds names to lower case, and writes ``file:/x`` for
``file:///x``.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

DATABASE = "events"


class FakeMetastore:
    """The calls of a Metastore with one database. ``denied``: names of tables that the caller has no right to change.
    ``is_away``: whether it hangs up at each call."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {}
        self.calls: list[str] = []
        self.denied: set[str] = set()
        self.is_away = False
        self.lock = threading.Lock()
        self.url = ""

    def get_database(self, name: str) -> Any:
        self._reach()
        if name != DATABASE:
            raise ttypes.NoSuchObjectException(message=f"database hive.{name}")
        return ttypes.Database(name=name, description="", locationUri="file:/nowhere", parameters={})

    def get_all_tables(self, db_name: str) -> list[str]:
        self._reach()
        assert db_name == DATABASE
        return sorted(self.tables)

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Any]:
        self._reach()
        assert dbname == DATABASE
        with self.lock:
            return [self.tables[name] for name in tbl_names if name in self.tables]

    def get_table(self, dbname: str, tbl_name: str) -> Any:
        self._reach()
        with self.lock:
            return self._found(dbname, tbl_name)

    def create_table(self, tbl: Any) -> None:
        with self.lock:
            self._change("create", tbl.tableName)
            if tbl.tableName.lower() in self.tables:
                raise ttypes.AlreadyExistsException(message=f"Table {tbl.tableName} already exists")
            self._put(tbl)

    def alter_table(self, dbname: str, tbl_name: str, new_tbl: Any) -> None:
        with self.lock:
            self._change("alter", tbl_name)
            before = {column.name: column.type for column in self._found(dbname, tbl_name).sd.cols}
            if any(before.get(column.name, column.type) != column.type for column in new_tbl.sd.cols):
                raise ttypes.InvalidOperationException(message="The following columns have types incompatible")
            self._put(new_tbl)

    def drop_table(self, dbname: str, name: str, deleteData: bool) -> None:
        assert not deleteData
        with self.lock:
            self._change("drop", name)
            self._found(dbname, name)
            del self.tables[name.lower()]

    def _found(self, database: str, name: str) -> Any:
        if name.lower() not in self.tables:
            raise ttypes.NoSuchObjectException(message=f"{database}.{name} table not found")
        return self.tables[name.lower()]

    def _put(self, table: Any) -> None:
        table.tableName = table.tableName.lower()
        table.sd.location = table.sd.location.replace("file:///", "file:/")
        self.tables[table.tableName] = table

    def _reach(self) -> None:
        if self.is_away:
            raise TTransportException(message="away")

    def _change(self, what: str, name: str) -> None:
        self._reach()
        self.calls.append(f"{what} {name}")
        if name in self.denied:
            raise ttypes.MetaException(message="Permission denied: user=tidelog")


@contextmanager
def fake_metastore() -> Iterator[FakeMetastore]:
    """Serve it, until the end of the block."""
    metastore = FakeMetastore()
    processor = ThriftHiveMetastore.Processor(metastore)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            socket = TSocket()
            socket.setHandle(self.request)
            protocol = TBinaryProtocol(TBufferedTransport(socket))
            try:
                while True:
                    processor.process(protocol, protocol)
            except TTransportException:
                pass  # it hung up

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    metastore.url = f"thrift://127.0.0.1:{server.server_address[1]}/{DATABASE}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield metastore
    finally:
        server.shutdown()
        server.server_close()
