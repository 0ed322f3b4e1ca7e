"""AWS Glue's Data Catalog, by boto3: credentials and region are those of the environment.

Source: AWS Glue's "Web API Reference", tables; Amazon Athena's "Query Linux Foundation Delta Lake tables".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from compaction.catalogs.catalog import CatalogUnavailable, TableRefused, TableTaken
from compaction.catalogs.hive_parameters import (
    EXTERNAL_TABLE,
    INPUT_FORMAT,
    OUTPUT_FORMAT,
    SERDE,
    hive_parameters,
    serde_parameters,
)
from log_format.catalogs.table import ListedTable, TopicTable

COMMENT_CHARACTERS_MAX: Final = 2_048
"""Longest description of a table in Glue."""
_REFUSED: Final = {
    "AccessDeniedException",
    "ConcurrentModificationException",
    "InvalidInputException",
    "ResourceNumberLimitExceededException",
}
"""Lake Formation may deny one table and allow others."""
_OF_ATHENA: Final = {"table_type": "DELTA", "classification": "delta"}


class GlueCatalog:
    """A database of AWS Glue."""

    has_hadoop_addresses = False
    parallelism = 8

    def __init__(self, database: str) -> None:
        self._database = database
        config = Config(retries={"mode": "standard", "total_max_attempts": 8}, max_pool_connections=self.parallelism)
        try:
            # boto3 itself knows AWS_DEFAULT_REGION only; AWS's other programs know both.
            self._client: Any = boto3.client("glue", region_name=os.environ.get("AWS_REGION") or None, config=config)
        except BotoCoreError as problem:
            raise ValueError(
                f"--glue: {str(problem).rstrip('.')}. Set AWS_REGION, and credentials as for other programs of AWS."
            ) from problem

    @property
    def label(self) -> str:
        """What people call it."""
        return f"Glue database {self._database}"

    def list_tables(self) -> Iterator[ListedTable]:
        """Yield all tables of the database, as ``Catalog`` specifies."""
        asked: dict[str, Any] = {"DatabaseName": self._database}
        while True:
            page = self._call("get_tables", **asked)
            if page is None:
                raise CatalogUnavailable(f"{self.label} does not exist: create it first")
            yield from map(_listed, page["TableList"])
            if not page.get("NextToken"):
                return
            asked["NextToken"] = page["NextToken"]

    def get_table(self, name: str) -> ListedTable | None:
        """Return one table, or None."""
        found = self._call("get_table", DatabaseName=self._database, Name=name)
        return None if found is None else _listed(found["Table"])

    def create(self, table: TopicTable) -> None:
        """Create the table."""
        if self._call("create_table", DatabaseName=self._database, TableInput=_input(table, {})) is None:
            raise CatalogUnavailable(f"{self.label} does not exist any more")

    def alter(self, table: TopicTable, before: ListedTable) -> None:
        """Alter the table; no older version of it is kept."""
        given = _input(table, before.properties)
        self._call("update_table", DatabaseName=self._database, TableInput=given, SkipArchive=True)

    def drop(self, name: str) -> None:
        """Drop the table."""
        self._call("delete_table", DatabaseName=self._database, Name=name)

    def _call(self, operation: str, **given: Any) -> Any:
        """Return the answer; None if there is no such thing."""
        try:
            return getattr(self._client, operation)(**given)
        except ClientError as problem:
            code = problem.response.get("Error", {}).get("Code", "")
            if code == "EntityNotFoundException":
                return None
            what = f"{self.label}: {problem}"
            if code == "AlreadyExistsException":
                raise TableTaken(what) from problem
            raise (TableRefused(what) if code in _REFUSED else CatalogUnavailable(what)) from problem
        except BotoCoreError as problem:
            raise CatalogUnavailable(f"{self.label}: {problem}") from problem


def _listed(said: Mapping[str, Any]) -> ListedTable:
    location = said.get("StorageDescriptor", {}).get("Location", "")
    return ListedTable(name=said["Name"], location=location, properties=said.get("Parameters", {}))


def _input(table: TopicTable, before: Mapping[str, str]) -> dict[str, Any]:
    return {
        "Name": table.name,
        "Description": table.comment[:COMMENT_CHARACTERS_MAX],
        "TableType": EXTERNAL_TABLE,
        "Parameters": {**hive_parameters(table, before), **_OF_ATHENA},
        "StorageDescriptor": {
            "Columns": [
                {"Name": column.name, "Type": column.hive_type, "Comment": column.comment} for column in table.columns
            ],
            "Location": table.location,
            "InputFormat": INPUT_FORMAT,
            "OutputFormat": OUTPUT_FORMAT,
            "SerdeInfo": {"SerializationLibrary": SERDE, "Parameters": serde_parameters(table)},
        },
    }
