"""A Unity Catalog in this process, by its OpenAPI documents: tables, pages, rights and errors, and Delta's ``updateTable``.

As the open-source server does, it checks each column against its own JSON, cuts pages, and answers 400 with
``TABLE_ALREADY_EXISTS`` where others answer 409.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TABLES = "/api/2.1/unity-catalog/tables"
DELTA = "/api/2.1/unity-catalog/delta/v1"
REQUIRED = {"name", "catalog_name", "schema_name", "table_type", "columns"}
TYPE_NAMES = {
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"),
    *("BINARY", "DECIMAL", "INTERVAL", "ARRAY", "STRUCT", "MAP", "VARIANT", "CHAR", "NULL", "USER_DEFINED_TYPE"),
}


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, error_code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


@dataclass
class FakeUnity:
    """The schema ``main.events``. ``token``: the only one that it takes; None: none is asked for. ``denied``: names of tables
    that the caller has no right to change. ``is_away``: whether it answers 503. ``page_max``: most tables in a page, less than a
    real server gives. ``delay_s``: how long each answer takes. ``can_alter``: whether it has the calls for clients of Delta.
    ``page``: what it answers to each call in place of JSON."""

    url: str = ""
    token: str | None = None
    denied: set[str] = field(default_factory=set)
    is_away: bool = False
    page_max: int = 2
    delay_s: float = 0.0
    can_alter: bool = True
    fails_to_drop: bool | None = None
    """Each drop is answered by an error. False: another caller dropped the table at the same time; True: it is still there."""
    page: bytes = b""
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, path: str, token: str | None, body: Any) -> Any:
        """Return the document of an answer, one at a time. Raises ``Refused``."""
        time.sleep(self.delay_s)
        with self.lock:
            return self._answer(method, path, token, body)

    def _answer(self, method: str, path: str, token: str | None, body: Any) -> Any:
        parts = urlsplit(path)
        self.calls.append(f"{method} {parts.path.removeprefix(TABLES)}")
        if self.is_away:
            raise Refused(503, "TEMPORARILY_UNAVAILABLE", "later")
        if self.token is not None and token != f"Bearer {self.token}":
            raise Refused(401, "UNAUTHENTICATED", f"bad credentials: {token}")
        if parts.path.startswith(f"{DELTA}/"):
            return self._altered(parts.path.removeprefix(f"{DELTA}/").split("/"), body)
        if parts.path == TABLES:
            return self._created(body) if method == "POST" else self._page(parse_qs(parts.query))
        catalog, schema, name = unquote(parts.path.removeprefix(f"{TABLES}/")).split(".")
        self._check(catalog, schema)
        if name not in self.tables:
            raise Refused(404, "TABLE_NOT_FOUND", f"Table not found: {name}")
        if method == "GET":
            return self.tables[name]
        self._judge(name)
        if not self.fails_to_drop:
            del self.tables[name]
        if self.fails_to_drop is not None:
            raise Refused(500, "INTERNAL", "Row was updated or deleted by another transaction")
        return {}

    def _page(self, asked: dict[str, list[str]]) -> Any:
        self._check(asked["catalog_name"][0], asked["schema_name"][0])
        first = int(asked.get("page_token", ["0"])[0])
        assert int(asked["max_results"][0]) <= 50
        end = first + self.page_max
        there = [self.tables[name] for name in sorted(self.tables)]
        return {"tables": there[first:end], **({"next_page_token": str(end)} if end < len(there) else {})}

    def _created(self, body: dict[str, Any]) -> Any:
        assert body.keys() >= REQUIRED
        assert (body["table_type"], body["data_source_format"]) == ("EXTERNAL", "DELTA")
        self._check(body["catalog_name"], body["schema_name"])
        self._judge(body["name"])
        for position, column in enumerate(body["columns"]):
            said = json.loads(column["type_json"])
            assert said.keys() == {"name", "type", "nullable", "metadata"}
            assert (said["name"], said["nullable"]) == (column["name"], column["nullable"])
            assert column["type_name"] in TYPE_NAMES
            assert column["position"] == position
            assert ("type_precision" in column) == (column["type_name"] == "DECIMAL")
        if any(len(value) > 255 for value in body["properties"].values()):
            raise Refused(500, "INTERNAL", "Value too long for column PROPERTY_VALUE")
        if body["name"] in self.tables:
            raise Refused(400, "TABLE_ALREADY_EXISTS", f"Table already exists: {body['name']}")
        self.tables[body["name"]] = {**body, "table_id": str(uuid.uuid4())}
        return self.tables[body["name"]]

    def _altered(self, path: list[str], body: dict[str, Any]) -> Any:
        if not self.can_alter:
            raise Refused(404, "NOT_FOUND", "no such call")
        assert path[::2] == ["catalogs", "schemas", "tables"]
        self._check(path[1], path[3])
        self._judge(path[5])
        if path[5] not in self.tables:
            raise Refused(404, "NO_SUCH_TABLE", "Table not found")
        table = self.tables[path[5]]
        if body["requirements"] != [{"type": "assert-table-uuid", "uuid": table["table_id"]}]:
            raise Refused(409, "UPDATE_REQUIREMENT_CONFLICT", "assert-table-uuid failed")
        updates = {one["action"]: one for one in body["updates"]}
        removed = set(updates.pop("remove-properties", {}).get("removals", ()))
        changed = updates.pop("set-properties")["updates"]
        assert not removed & changed.keys()
        properties = {**table["properties"], **changed}
        columns = updates.pop("set-columns")["columns"]
        assert columns["type"] == "struct"
        comment = updates.pop("set-table-comment")["comment"]
        assert not updates
        self.tables[path[5]] = {
            **table,
            "comment": comment,
            "properties": {name: value for name, value in properties.items() if name not in removed},
            "columns": [{"name": one["name"], "type_text": _type_text(one["type"])} for one in columns["fields"]],
        }
        return {}

    def _check(self, catalog: str, schema: str) -> None:
        if (catalog, schema) != ("main", "events"):
            raise Refused(404, "SCHEMA_NOT_FOUND", f"Schema not found: {schema}")

    def _judge(self, name: str) -> None:
        if name in self.denied:
            raise Refused(403, "PERMISSION_DENIED", "Access denied")


def _type_text(kind: Any) -> str:
    """Type of a column in Hive's words, of that in Spark's JSON."""
    if isinstance(kind, str):
        return {"long": "bigint", "integer": "int"}.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_type_text(kind['elementType'])}>"
    assert kind["type"] == "struct"
    members = [f"{one['name']}:{_type_text(one['type'])}" for one in kind["fields"]]
    return f"struct<{','.join(members)}>"


@contextmanager
def fake_unity() -> Iterator[FakeUnity]:
    """Serve it, until the end of the block."""
    unity = FakeUnity()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                status, said = 200, unity.answer(self.command, self.path, self.headers.get("authorization"), body)
            except Refused as refused:
                status, said = refused.status, {"error_code": refused.error_code, "message": str(refused)}
            data = unity.page or json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    unity.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield unity
    finally:
        server.shutdown()
        server.server_close()
