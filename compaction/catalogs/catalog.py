"""The protocol of a catalog, and its errors by what a run does next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from log_format.catalogs.table import ListedTable, TopicTable


class CatalogError(Exception):
    """A catalog did not do what was asked. The message says what, where, and what helps."""


class CatalogUnavailable(CatalogError):
    """The catalog gives no answer, or does not know the caller: the run ends. What was asked last may have happened."""


class TableRefused(CatalogError):
    """The catalog refuses this table, or the caller has no right to it; the run goes on with others."""


class TableTaken(TableRefused):
    """A table of this name exists already."""


class Catalog(Protocol):
    """One schema of a catalog. Thread-safe. Every call raises ``CatalogError``."""

    @property
    def label(self) -> str:
        """What people call it, with its address."""
        ...

    @property
    def has_hadoop_addresses(self) -> bool:
        """Whether its readers take addresses as Hadoop does (``log_format.catalogs.table.hadoop_address``)."""
        ...

    @property
    def parallelism(self) -> int:
        """Number of tables that are changed at a time."""
        ...

    def list_tables(self) -> Iterator[ListedTable]:
        """Yield all tables and views of the schema; pages are asked for as they are consumed."""
        ...

    def get_table(self, name: str) -> ListedTable | None:
        """Return one table, or None if there is none."""
        ...

    def create(self, table: TopicTable) -> None:
        """Create an external table. Raises ``TableTaken`` if there is one of this name, which stays as it is."""
        ...

    def alter(self, table: TopicTable, before: ListedTable) -> None:
        """Make the table ``before`` say what ``table`` says. Properties that others gave it stay."""
        ...

    def drop(self, name: str) -> None:
        """Drop a table from the catalog, never its files. Nothing happens if there is none."""
        ...
