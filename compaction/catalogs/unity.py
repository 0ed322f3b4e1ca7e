"""Unity Catalog: the open-source server's REST API 2.1, which Databricks has, too.

Its calls for tables can't alter one; those for clients of Delta can (open-source servers from 0.5.0 on). Where a server has none,
an alteration drops the table and creates it. Between the two calls, some milliseconds, the table is not there, and rights that
were given on it end; if the run is killed between them, the next run creates it.

Source: Unity Catalog's OpenAPI documents, tables (``api/all.yaml``) and ``updateTable`` (``api/delta.yaml``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import urllib3

from compaction.catalogs.catalog import CatalogUnavailable, TableRefused, TableTaken
from compaction.catalogs.network_words import network_words
from log_format.catalogs.columns import Column
from log_format.catalogs.table import ListedTable, TopicTable, altered_properties
from log_format.errors import DECODE_ERRORS

_TABLES: Final = "/api/2.1/unity-catalog/tables"
_OF_DELTA: Final = "/api/2.1/unity-catalog/delta/v1"
_LACKS_CALL: Final = {400, 404, 405, 501}
"""Answers of a server that can't alter a table. What it refuses so, it does not do."""
PAGE: Final = 50
"""Most tables that the server gives in a page."""
PROPERTY_CHARACTERS_MAX: Final = 255
"""Longest value of a property that the server stores. A longer one (a subject's name) is left out."""
TIMEOUT_S: Final = 30.0
_TYPE_NAMES: Final = {
    "int": "INT",
    "bigint": "LONG",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "decimal": "DECIMAL",
    "array": "ARRAY",
    "map": "MAP",
    "struct": "STRUCT",
}
"""Names of types, by the first word of Hive's."""


class UnityCatalog:
    """A schema of Unity Catalog. ``url``: the server's address, without a path."""

    has_hadoop_addresses = False
    parallelism = 8

    def __init__(self, url: str, catalog: str, schema: str, *, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
            raise ValueError(
                "--unity is no address: write https://host, and the token into the file of --unity-token-file"
            )
        self._url = url.rstrip("/")
        self._catalog = catalog
        self._schema = schema
        self._token = token
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(maxsize=self.parallelism, timeout=TIMEOUT_S, headers=headers)

    @property
    def label(self) -> str:
        """What people call it."""
        return f"Unity Catalog {self._catalog}.{self._schema} at {self._url}"

    def list_tables(self) -> Iterator[ListedTable]:
        """Yield all tables of the schema, as ``Catalog`` specifies."""
        token: str | None = ""
        while token is not None:
            asked = {"catalog_name": self._catalog, "schema_name": self._schema, "max_results": str(PAGE)}
            asked |= {"omit_columns": "true"} | ({"page_token": token} if token else {})
            answer = self._call("GET", f"{_TABLES}?{urlencode(asked)}")
            if answer is None:
                raise CatalogUnavailable(f"{self.label} does not exist: create the catalog and the schema there first")
            yield from map(_listed, answer.get("tables") or ())
            before, token = token, answer.get("next_page_token") or None
            if token == before:
                raise CatalogUnavailable(f"{self.label} gives the same page of tables again and again")

    def get_table(self, name: str) -> ListedTable | None:
        """Return one table, or None."""
        answer = self._call("GET", self._path(name))
        return None if answer is None else _listed(answer)

    def create(self, table: TopicTable) -> None:
        """Create the table."""
        self._create(table, _stored(table.properties))

    def alter(self, table: TopicTable, before: ListedTable) -> None:
        """Alter the table; where the server can't, drop it and create it, with the properties that others gave it."""
        properties = _stored(altered_properties(before.properties, table))
        if not self._is_altered_in_place(table, before, properties):
            self.drop(table.name)
            self._create(table, properties)

    def drop(self, name: str) -> None:
        """Drop the table. The open-source server answers by 500 if another run drops it at the same time."""
        try:
            self._call("DELETE", self._path(name))
        except CatalogUnavailable:
            if self.get_table(name) is not None:
                raise

    def _create(self, table: TopicTable, properties: dict[str, str]) -> None:
        body = {
            "name": table.name,
            "catalog_name": self._catalog,
            "schema_name": self._schema,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "storage_location": table.location,
            "comment": table.comment,
            "columns": [_column(column, position) for position, column in enumerate(table.columns)],
            "properties": properties,
        }
        self._call("POST", _TABLES, body)

    def _is_altered_in_place(self, table: TopicTable, before: ListedTable, properties: dict[str, str]) -> bool:
        """Return whether the server did it, in one step, to the very table that is ``before``."""
        there = self._call("GET", self._path(table.name))
        if there is None:
            return False
        if _listed(there) != before:
            raise TableTaken(f"{self.label}: table {table.name} changed")
        gone = sorted(before.properties.keys() - properties.keys())
        body = {
            "requirements": [{"type": "assert-table-uuid", "uuid": there.get("table_id")}],
            "updates": [
                {"action": "set-columns", "columns": {"type": "struct", "fields": list(map(_field, table.columns))}},
                {"action": "set-properties", "updates": properties},
                {"action": "set-table-comment", "comment": table.comment},
                *([{"action": "remove-properties", "removals": gone}] if gone else []),
            ],
        }
        path = f"{_OF_DELTA}/catalogs/{self._catalog}/schemas/{self._schema}/tables/{table.name}"
        return self._call("POST", path, body, ignored=_LACKS_CALL) is not None

    def _path(self, name: str) -> str:
        return f"{_TABLES}/{quote(f'{self._catalog}.{self._schema}.{name}', safe='')}"

    def _call(self, method: str, path: str, body: Any = None, *, ignored: Collection[int] = ()) -> Any:
        """Return the answer's document; None if there is no such thing, or the status is ``ignored``. Only reads are repeated."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {**self._pool.headers, **({} if data is None else {"content-type": "application/json"})}
        try:
            answer = self._pool.request(
                method,
                self._url + path,
                body=data,
                headers=headers,
                retries=urllib3.Retry(3, redirect=0, allowed_methods=["GET"], backoff_factor=0.2),
            )
        except urllib3.exceptions.HTTPError as problem:
            # Not chained, nor is the token said: a traceback of urllib3 may have the request's headers.
            why = f"{self.label} gives no answer: {network_words(problem)}"
            raise CatalogUnavailable(self._without_token(why)) from None
        if answer.status in ignored or (answer.status == 404 and method != "POST"):
            return None
        said = _document(answer.data)
        if answer.status < 300 and (said is not None or method == "DELETE"):
            return said
        what = self._without_token(
            f"{self.label} answers {method} {path.partition('?')[0]} by {answer.status}: {_message(said)}"
        )
        if answer.status == 401:
            raise CatalogUnavailable(f"{what}. Is the token (--unity-token-file, or TIDELOG_UNITY_TOKEN) still valid?")
        if answer.status == 409 or "ALREADY_EXISTS" in str((said or {}).get("error_code")):
            raise TableTaken(what)
        raise TableRefused(what) if answer.status in {400, 403, 404, 422} else CatalogUnavailable(what)

    def _without_token(self, text: str) -> str:
        return text if self._token is None else text.replace(self._token, "(the token)")


def _stored(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if len(value) <= PROPERTY_CHARACTERS_MAX}


def _document(data: bytes) -> dict[str, Any] | None:
    """Return the document; None if it is no object of JSON, such as a page of a proxy."""
    try:
        said = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return None
    return said if isinstance(said, dict) else None


def _message(said: dict[str, Any] | None) -> str:
    if said is None:
        return "(no JSON: is this the address of Unity Catalog?)"
    return " ".join(str(said[name]) for name in ("error_code", "message") if said.get(name)) or "(no reason given)"


def _listed(said: Any) -> ListedTable:
    try:
        table = msgspec.convert(said, dict[str, Any])
        location, properties = table.get("storage_location") or "", table.get("properties") or {}
        return ListedTable(
            name=table["name"], location=location, properties=msgspec.convert(properties, dict[str, str])
        )
    except (KeyError, msgspec.ValidationError) as problem:
        raise CatalogUnavailable(f"Unity Catalog tells of a table that can't be read: {problem}") from problem


def _field(column: Column) -> dict[str, Any]:
    """Return the column in Spark's JSON, with its comment as Spark has it."""
    field: dict[str, Any] = msgspec.json.decode(column.spark_field)
    return {**field, "metadata": {**field["metadata"], "comment": column.comment}}


def _column(column: Column, position: int) -> dict[str, Any]:
    word, _, rest = column.hive_type.partition("(")
    described: dict[str, Any] = {
        "name": column.name,
        "type_text": column.hive_type,
        "type_json": column.spark_field,
        "type_name": _TYPE_NAMES[word.partition("<")[0]],
        "position": position,
        "comment": column.comment,
        "nullable": True,
    }
    if word == "decimal":
        precision, _, scale = rest.rstrip(")").partition(",")
        described |= {"type_precision": int(precision), "type_scale": int(scale)}
    return described
