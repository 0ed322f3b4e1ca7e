"""Unity Catalog: the open-source server's REST API 2.1, which Databricks has, too.

The API can't alter a table, so an alteration drops the table and creates it. Between the two calls, some milliseconds, the table
is not there; if the run is killed between them, the next run creates it.

Source: Unity Catalog's OpenAPI document (``api/all.yaml``), tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import urllib3

from compaction.catalogs.catalog import CatalogUnavailable, TableRefused, TableTaken
from log_format.catalogs.columns import Column
from log_format.catalogs.table import ListedTable, TopicTable, altered_properties

_TABLES: Final = "/api/2.1/unity-catalog/tables"
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
            token = answer.get("next_page_token") or None

    def get_table(self, name: str) -> ListedTable | None:
        """Return one table, or None."""
        answer = self._call("GET", self._path(name))
        return None if answer is None else _listed(answer)

    def create(self, table: TopicTable) -> None:
        """Create the table."""
        self._create(table, dict(table.properties))

    def alter(self, table: TopicTable, before: ListedTable) -> None:
        """Drop the table and create it, with the properties that others gave it."""
        properties = altered_properties(before.properties, table)
        self.drop(table.name)
        self._create(table, properties)

    def drop(self, name: str) -> None:
        """Drop the table."""
        self._call("DELETE", self._path(name))

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
            "properties": {name: value for name, value in properties.items() if len(value) <= PROPERTY_CHARACTERS_MAX},
        }
        self._call("POST", _TABLES, body)

    def _path(self, name: str) -> str:
        return f"{_TABLES}/{quote(f'{self._catalog}.{self._schema}.{name}', safe='')}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer's document; None if there is no such thing. Only reads are repeated."""
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
            what = self._without_token(f"{self.label} gives no answer to {method} {path}: {problem}")
            raise CatalogUnavailable(what) from None
        if answer.status == 404 and method != "POST":
            return None
        said = _document(answer.data)
        if answer.status < 300:
            return said
        what = self._without_token(f"{self.label} answers {method} {path} by {answer.status}: {_message(said)}")
        if answer.status == 401:
            raise CatalogUnavailable(f"{what}. Is the token (--unity-token-file, or TIDELOG_UNITY_TOKEN) still valid?")
        if answer.status == 409 or "ALREADY_EXISTS" in str(said.get("error_code")):
            raise TableTaken(what)
        raise TableRefused(what) if answer.status in {400, 403, 404, 422} else CatalogUnavailable(what)

    def _without_token(self, text: str) -> str:
        return text if self._token is None else text.replace(self._token, "(the token)")


def _document(data: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(data) if data else {}
    except msgspec.DecodeError:
        said = {"message": data[:200].decode(errors="replace")}
    return said if isinstance(said, dict) else {}


def _message(said: dict[str, Any]) -> str:
    return " ".join(str(said[name]) for name in ("error_code", "message") if said.get(name)) or "(no reason given)"


def _listed(said: dict[str, Any]) -> ListedTable:
    return ListedTable(
        name=said["name"], location=said.get("storage_location") or "", properties=said.get("properties") or {}
    )


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
