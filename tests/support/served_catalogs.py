"""The three catalogs by their own protocols, served in this process, for tests that do the same with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws
from pymetastore.hive_metastore import ttypes

from compaction.catalogs.catalog import Catalog
from compaction.catalogs.glue import GlueCatalog
from compaction.catalogs.hive import HiveCatalog
from compaction.catalogs.unity import UnityCatalog
from log_format.catalogs.table import ListedTable
from tests.support.fake_metastore import DATABASE, fake_metastore
from tests.support.fake_unity import TABLES, fake_unity

AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""The environment that Glue needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCatalog:
    """A catalog, and its other side.

    ``put``: somebody else's program makes a table with these properties at this address. ``types``: a table's columns as the
    catalog has them, by name. ``deny``: the caller loses the right to change the table. ``set_away``: whether it answers.
    """

    catalog: Catalog
    put: Callable[[ListedTable], None]
    types: Callable[[str], dict[str, str]]
    deny: Callable[[str], None]
    set_away: Callable[[bool], None]

    def tables(self) -> dict[str, ListedTable]:
        """Return the tables by name."""
        return {each.name: each for each in self.catalog.list_tables()}


@contextmanager
def served_unity(token: str | None = None) -> Iterator[ServedCatalog]:
    """Unity Catalog by HTTP."""
    with fake_unity() as unity:
        unity.token = token

        def put(table: ListedTable) -> None:
            unity.tables[table.name] = {
                "name": table.name, "storage_location": table.location, "properties": dict(table.properties)
            }  # fmt: skip

        yield ServedCatalog(
            catalog=UnityCatalog(unity.url, "main", "events", token=token),
            put=put,
            types=lambda name: {one["name"]: one["type_text"] for one in unity.tables[name]["columns"]},
            deny=unity.denied.add,
            set_away=lambda is_away: setattr(unity, "is_away", is_away),
        )
        assert all(
            call.split(" ")[1].startswith(("/main.events.", TABLES)) or call in {"GET ", "POST "}
            for call in unity.calls
        )


@contextmanager
def served_glue() -> Iterator[ServedCatalog]:
    """Glue by moto, which takes boto3's requests. The environment has ``AWS``."""
    denied: set[str] = set()
    state = SimpleNamespace(is_away=False)

    def before(model: Any, params: Any, **_: Any) -> Any:
        if state.is_away:
            raise EndpointConnectionError(endpoint_url="https://glue.us-east-1.amazonaws.com")
        is_change = not model.name.startswith("Get")
        if is_change and any(f'"{name}"' in str(params["body"]) for name in denied):
            said = {"Code": "AccessDeniedException", "Message": "Insufficient Lake Formation permission(s)"}
            return SimpleNamespace(status_code=400), {"Error": said, "ResponseMetadata": {}}
        return None

    with mock_aws():
        there = boto3.client("glue")
        there.create_database(DatabaseInput={"Name": DATABASE})
        catalog = GlueCatalog(DATABASE)
        catalog._client.meta.events.register("before-call.glue", before)

        def put(table: ListedTable) -> None:
            storage = {"Columns": [], "Location": table.location}
            given = {"Name": table.name, "Parameters": dict(table.properties), "StorageDescriptor": storage}
            change = there.update_table if table.name in catalog_names() else there.create_table
            change(DatabaseName=DATABASE, TableInput=given)

        def catalog_names() -> set[str]:
            return {each["Name"] for each in there.get_tables(DatabaseName=DATABASE)["TableList"]}

        def types(name: str) -> dict[str, str]:
            found = there.get_table(DatabaseName=DATABASE, Name=name)["Table"]["StorageDescriptor"]["Columns"]
            return {one["Name"]: one["Type"] for one in found}

        yield ServedCatalog(
            catalog=catalog, put=put, types=types, deny=denied.add,
            set_away=lambda is_away: setattr(state, "is_away", is_away),
        )  # fmt: skip


@contextmanager
def served_hive() -> Iterator[ServedCatalog]:
    """A Hive Metastore by Thrift."""
    with fake_metastore() as metastore:
        catalog = HiveCatalog.at(metastore.url)

        def put(table: ListedTable) -> None:
            storage = ttypes.StorageDescriptor(cols=[], location=table.location)
            metastore.tables[table.name] = ttypes.Table(
                tableName=table.name, dbName=DATABASE, sd=storage, parameters=dict(table.properties)
            )

        yield ServedCatalog(
            catalog=catalog,
            put=put,
            types=lambda name: {one.name: one.type for one in metastore.tables[name].sd.cols},
            deny=metastore.denied.add,
            set_away=lambda is_away: setattr(metastore, "is_away", is_away),
        )
        catalog.close()
