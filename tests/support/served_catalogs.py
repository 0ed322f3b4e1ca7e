"""The three catalogs by their own protocols, served in this process, for tests that do the same with each."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import unquote

import boto3
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws
from pymetastore.hive_metastore import ttypes

from compaction.catalogs.catalog import Catalog
from compaction.catalogs.glue import GlueCatalog
from compaction.catalogs.hive import HiveCatalog
from compaction.catalogs.hive_parameters import INPUT_FORMAT, OUTPUT_FORMAT, SERDE
from compaction.catalogs.unity import UnityCatalog
from log_format.catalogs.table import ListedTable, hadoop_address
from tests.support.fake_metastore import DATABASE, fake_metastore
from tests.support.fake_unity import fake_unity

AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
}
"""The environment that Glue needs."""
STORE_URI: Final = "s3://bucket/log"
METASTORE: Final = "TIDELOG_TEST_METASTORE"
"""Variable with the address of a real Metastore (``make catalogs``), without a database."""

UNITY: Final = "TIDELOG_TEST_UNITY"
"""Variable with the address of a real server of Unity Catalog, in which there is the catalog ``main``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCatalog:
    """A catalog, and its other side.

    ``put``: somebody else's program makes a table with these properties at this address. ``types``: a table's columns as the
    catalog has them, by name. ``deny``: the caller loses the right to change the table. ``set_away``: whether it answers.
    ``store_uri``: address of a store to which its tables may point.
    """

    catalog: Catalog
    put: Callable[[ListedTable], None]
    types: Callable[[str], dict[str, str]]
    deny: Callable[[str], None]
    set_away: Callable[[bool], None]
    store_uri: str = STORE_URI

    def tables(self) -> dict[str, ListedTable]:
        """Return the tables by name."""
        return {each.name: each for each in self.catalog.list_tables()}


@contextmanager
def served_unity(*, page_max: int = 2, delay_s: float = 0.0, can_alter: bool = True) -> Iterator[ServedCatalog]:
    """Unity Catalog by HTTP: the server that ``UNITY`` names, or a fake one."""
    if (real := os.environ.get(UNITY)) is not None and can_alter:
        yield real_unity(real)
        return
    with fake_unity() as unity:
        unity.page_max, unity.delay_s, unity.can_alter = page_max, delay_s, can_alter

        def put(table: ListedTable) -> None:
            said = {"name": table.name, "storage_location": table.location, "properties": dict(table.properties)}
            unity.tables[table.name] = {**unity.tables.get(table.name, {}), **said}

        yield ServedCatalog(
            catalog=UnityCatalog(unity.url, "main", "events"),
            put=put,
            types=lambda name: {one["name"]: one["type_text"] for one in unity.tables[name]["columns"]},
            deny=unity.denied.add,
            set_away=lambda is_away: setattr(unity, "is_away", is_away),
        )


def real_unity(url: str) -> ServedCatalog:
    """A new schema of a server. Nobody can take away a right there, or the server."""
    catalog = UnityCatalog(url, "main", f"events_{uuid.uuid4().hex[:8]}")
    api = "/api/2.1/unity-catalog"
    catalog._call("POST", f"{api}/schemas", {"name": catalog._schema, "catalog_name": "main"})

    def put(table: ListedTable) -> None:
        if catalog.get_table(table.name) is not None:
            catalog.drop(table.name)
        said = {"name": table.name, "storage_location": table.location, "properties": dict(table.properties)}
        kind = {"table_type": "EXTERNAL", "data_source_format": "DELTA", "columns": []}
        catalog._call("POST", f"{api}/tables", {"catalog_name": "main", "schema_name": catalog._schema, **said, **kind})

    def types(name: str) -> dict[str, str]:
        found = catalog._call("GET", catalog._path(name))
        return {one["name"]: one["type_text"] for one in found["columns"]}

    return ServedCatalog(catalog=catalog, put=put, types=types, deny=_cannot, set_away=_cannot)


def _cannot(_: object) -> None:
    raise NotImplementedError


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
        there = boto3.client("glue", region_name=AWS["AWS_REGION"])
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
    """A Hive Metastore by Thrift: the one that ``METASTORE`` names, or a fake one."""
    real = os.environ.get(METASTORE)
    if real is not None:
        with tempfile.TemporaryDirectory(prefix="catalogs ") as directory, real_hive(real, Path(directory)) as served:
            yield served
        return
    with fake_metastore() as metastore:
        catalog = HiveCatalog.at(metastore.url)
        yield _hive(catalog, STORE_URI, metastore.denied.add, lambda is_away: setattr(metastore, "is_away", is_away))
        catalog.close()


@contextmanager
def real_hive(url: str, directory: Path) -> Iterator[ServedCatalog]:
    """A new database of a Metastore, for a store in the directory. Nobody can take away a right, or the Metastore."""
    name = f"events_{uuid.uuid4().hex[:8]}"
    catalog = HiveCatalog.at(f"{url}/{name}")
    place = (directory / "databases" / name).as_uri()
    database = ttypes.Database(name=name, description="", locationUri=unquote(place), parameters={})
    catalog._call(lambda client: client.create_database(database))
    yield _hive(catalog, (directory / "a log").as_uri(), _cannot, _cannot)
    catalog.close()


def _hive(
    catalog: HiveCatalog, store_uri: str, deny: Callable[[str], None], set_away: Callable[[bool], None]
) -> ServedCatalog:
    """The other side of a Metastore, by its own calls."""
    database = catalog._database

    def put(table: ListedTable) -> None:
        columns = [ttypes.FieldSchema("one", "int", "")]
        storage = ttypes.StorageDescriptor(
            cols=columns, location=hadoop_address(table.location), inputFormat=INPUT_FORMAT, outputFormat=OUTPUT_FORMAT,
            serdeInfo=ttypes.SerDeInfo(serializationLib=SERDE, parameters={}), numBuckets=-1,
            bucketCols=[], sortCols=[], parameters={},
        )  # fmt: skip
        made = ttypes.Table(
            tableName=table.name, dbName=database, sd=storage, parameters=dict(table.properties), partitionKeys=[]
        )
        if catalog.get_table(table.name) is None:
            catalog._call(lambda client: client.create_table(made))
        else:
            there = catalog._call(lambda client: client.get_table(database, table.name))
            there.parameters = made.parameters
            catalog._call(lambda client: client.alter_table(database, table.name, there))

    def types(name: str) -> dict[str, str]:
        found = catalog._call(lambda client: client.get_table(database, name))
        return {one.name: one.type for one in found.sd.cols}

    return ServedCatalog(catalog=catalog, put=put, types=types, deny=deny, set_away=set_away, store_uri=store_uri)
