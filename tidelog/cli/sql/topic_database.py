"""Topics as tables of DuckDB, in this process.

A topic is read when a statement first names it. Each later statement that names it reads only the records since.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from log_format.errors import TidelogError
from log_format.records.sql import parse_statement, quote_identifier, tables_read, topic_query
from tidelog.admin import Admin
from tidelog.cli.sql.interruptible import interruptible
from tidelog.cli.terminal.console import note, progress
from tidelog.cli.terminal.positions import PositionSpec, Range, resolve_range
from tidelog.consumer.consumer import Consumer
from tidelog.consumer.whole_topic import tables_between
from tidelog.errors import UnknownTopic
from tidelog.types.record import TopicPartition

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from log_format.schemas.columns.codec import RecordReaders

_SHOWS_TOPICS: Final = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
_SHOWS_COLUMNS: Final = re.compile(r"\s*(describe|desc|show)\b", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_MISSING_TABLE: Final = re.compile(r"Catalog Error: Table with name (.+) does not exist!")


@dataclass(slots=True)
class _ReadTopic:
    """What has been read of a topic. ``ends``: the offset before which each partition is read."""

    topic_id: str | None
    readers: RecordReaders | None
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)


class TopicDatabase:
    """A database in memory whose tables are topics, from ``begin`` to ``until`` or to the end that they have at each statement.

    ``settings``: those of a ``Consumer``. ``shown``: whether progress is shown. Used by one thread.
    """

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        admin: Admin,
        settings: Mapping[str, Any],
        begin: PositionSpec,
        until: PositionSpec | None,
        *,
        shown: bool,
    ) -> None:
        self._database = database
        self._admin = admin
        self._settings = settings
        self._begin = begin
        self._until = until
        self._shown = shown
        self._read: dict[str, _ReadTopic] = {}

    def statements(self, text: str) -> list[str]:
        """Split a text into its statements. Raises ``duckdb.Error`` for invalid SQL."""
        return [statement.query for statement in self._database.extract_statements(text)]

    def execute(self, statement: str) -> duckdb.DuckDBPyConnection:
        """Read what the topics that the statement names have more since their last use, and run it; return its answer.

        ``show tables`` lists the topics. Raises ``duckdb.Error``, and what reading a topic raises: ``UnknownTopic`` for a table
        that is neither a topic nor one that was created here.
        """
        if _SHOWS_TOPICS.fullmatch(statement):
            return self.list_tables()
        names, is_query = self._tables(statement)
        for name in names:
            # What is no query also names the table that it makes.
            with contextlib.nullcontext() if is_query else contextlib.suppress(UnknownTopic):
                try:
                    self._update(name, with_records=_SHOWS_COLUMNS.match(statement) is None)
                except UnknownTopic as error:
                    self._refuse_unquoted(statement, name, error)
                    raise
        while True:
            try:
                return interruptible(self._database, lambda: self._database.execute(statement))
            except _duckdb().CatalogException as error:
                # DuckDB names the tables of few kinds of statement without running them.
                missing = _MISSING_TABLE.match(str(error))
                if missing is None or missing.group(1) in self._read:
                    raise
                self._update(missing.group(1))

    def _refuse_unquoted(self, statement: str, name: str, error: UnknownTopic) -> None:
        """Raise ``ValueError`` if ``name``, as DuckDB reads it, is the end of a topic's name with dots."""
        for topic in self._admin.list_topics():
            if topic.name.endswith(f".{name}") and topic.name in statement:
                raise ValueError(
                    f'There is no topic {name}. A name with dots stands in double quotes: "{topic.name}".'
                ) from error

    def forget(self, topic: str | None = None) -> None:
        """Drop what was read of a topic, or of all: the next statement that names it reads it anew."""
        for name in list(self._read) if topic is None else [topic]:
            if self._read.pop(name, None) is not None:
                self._database.execute(f"drop view if exists {quote_identifier(name)}")
                self._database.execute(f"drop table if exists {_raw(name)}")

    def names(self) -> list[str]:
        """Return the topics that the caller may see, and what was created here, sorted."""
        return sorted({topic.name for topic in self._admin.list_topics()} | self._own_tables())

    def columns(self) -> list[str]:
        """Return the names of the columns of all topics that were used."""
        found = self._database.execute(
            "select distinct column_name from duckdb_columns() where not internal"
        ).fetchall()
        return sorted(name for (name,) in found)

    def members(self) -> list[str]:
        """Return the members of typed columns of all topics that were used, as a statement names them: ``data.amount``."""
        readers = [read.readers for read in self._read.values() if read.readers is not None]
        paths = {path for each in readers for field_ in each.columns.fields() for path in _paths(field_)}
        return sorted(".".join(map(self.written, path)) for path in paths)

    def written(self, name: str) -> str:
        """Return the name as a statement has it: in quotes if it has other characters than a plain one, or is a word of SQL."""
        return name if _PLAIN.fullmatch(name) and name.lower() not in self.reserved else quote_identifier(name)

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Words of SQL that are no names of columns or tables unless they are quoted."""
        query = "select keyword_name from duckdb_keywords() where keyword_category in ('reserved', 'type_function')"
        return frozenset(word for (word,) in self._database.execute(query).fetchall())

    def vocabulary(self) -> list[str]:
        """Return SQL's keywords and the names of functions, those of DuckDB's own use left out."""
        found = self._database.execute(
            "select keyword_name from duckdb_keywords() union select function_name from duckdb_functions() "
            "where regexp_full_match(function_name, '[a-z][a-z0-9_]*')"
        ).fetchall()
        return sorted(word for (word,) in found)

    def list_tables(self, pattern: str = "%") -> duckdb.DuckDBPyConnection:
        """Return the topics, with their numbers of partitions, and what was created here, of names ilike ``pattern``."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        topics = [(each.name, each.partition_count) for each in self._admin.list_topics()]
        own = sorted(self._own_tables())
        listed = pa.table(
            {
                "name": pa.array([*(name for name, _ in topics), *own], pa.string()),
                "partitions": pa.array([*(count for _, count in topics), *(None for _ in own)], pa.int32()),
            }
        )
        self._database.register("listed", listed)
        return self._database.execute("select name, partitions from listed where name ilike ? order by name", [pattern])

    def _own_tables(self) -> set[str]:
        """Return the tables and views that statements created."""
        found = self._database.execute(
            "select table_name from duckdb_tables() where not internal "
            "union select view_name from duckdb_views() where not internal"
        ).fetchall()
        of_topics = {_raw_name(name) for name in self._read} | self._read.keys() | {"listed", "fetched"}
        return {name for (name,) in found} - of_topics

    def _tables(self, statement: str) -> tuple[list[str], bool]:
        """Return the tables that a statement names and that were not created here, and whether it is a query."""
        tree = parse_statement(self._database, statement)
        is_query = not tree.get("error")
        if not is_query:  # or invalid SQL, which its execution reports
            try:
                names = [name.strip('"') for name in self._database.get_table_names(statement)]
            except _duckdb().Error:
                names = []
        else:
            names = tables_read(tree)
        own = {name.lower() for name in self._own_tables()}
        return sorted(name for name in names if name.lower() not in own), is_query

    def _update(self, topic: str, *, with_records: bool = True) -> None:
        """Read the topic's records since the last time, or all if it is another topic of the same name."""
        described = self._admin.describe_topic(topic)
        read = self._read.get(topic)
        if read is not None and read.topic_id != described.topic_id:
            self.forget(topic)
            read = None
        if read is None:
            read = _ReadTopic(described.topic_id, self._readers(topic, described.config))
            self._create(topic, read.readers)
            self._read[topic] = read
        if with_records:
            wanted = resolve_range(self._admin, topic, self._begin, None, self._until)
            try:
                self._load(topic, read, wanted)
            except BaseException:
                self.forget(topic)  # the next statement would read again what is in the table already
                raise

    def _create(self, topic: str, readers: RecordReaders | None) -> None:
        """Create an empty table for the topic's records, and a view with its name over it."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        from tidelog.bodies.fetched_table import FETCHED_SCHEMA  # noqa: PLC0415 - needs pyarrow

        typed = [] if readers is None else readers.columns.fields()
        self._database.register("fetched", pa.schema([*FETCHED_SCHEMA, *typed]).empty_table())
        self._database.execute(f"create temp table {_raw(topic)} as select * from fetched")  # noqa: S608 - a quoted name
        query = topic_query(_raw(topic), [one.name for one in typed])
        self._database.execute(f"create temp view {quote_identifier(topic)} as {query}")
        self._database.unregister("fetched")

    def _load(self, topic: str, read: _ReadTopic, wanted: Range) -> None:
        """Bring the table to the range: remove what is before its begin, append what came after what was read."""
        for place, begin in wanted.begin.items():
            if read.begins.get(place, begin) < begin:
                where = f'partition = {place.partition} and "offset" < {begin}'
                self._database.execute(f"delete from {_raw(topic)} where {where}")  # noqa: S608 - a quoted name, numbers
        starts = {place: max(begin, read.ends.get(place, 0)) for place, begin in wanted.begin.items()}
        left = sum(max(0, wanted.end[each] - starts[each]) for each in starts)
        if left:
            with (
                Consumer(auto_offset_reset="none", **self._settings) as consumer,
                progress(f"from {topic}", shown=self._shown) as bar,
            ):
                task = bar.add_task("records", total=left)
                for table in tables_between(consumer, starts, wanted.end):
                    self._insert(topic, table if read.readers is None else _with_columns(table, read.readers))
                    bar.advance(task, table.num_rows)
        read.begins = dict(wanted.begin)
        read.ends = {place: max(end, read.ends.get(place, 0)) for place, end in wanted.end.items()}

    def _insert(self, topic: str, table: pa.Table) -> None:
        self._database.register("fetched", table)
        self._database.execute(f"insert into {_raw(topic)} select * from fetched")  # noqa: S608 - a quoted name
        self._database.unregister("fetched")

    def _readers(self, topic: str, config: Mapping[str, int | str]) -> RecordReaders | None:
        """Return the readers of a topic's schemas; None without any, or, with a note, if they can't be had."""
        from tidelog.schemas.record_readers import record_readers  # noqa: PLC0415 - needs pyarrow

        try:
            return record_readers(self._admin.schemas(), config)
        except (TidelogError, ValueError) as error:
            note(f"{topic} has no column data, since its schemas can't be used: {error}")
            return None


@contextmanager
def memory_database(memory: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database in memory, which fetches no extensions and puts what exceeds ``memory`` into temporary files.

    Raises ``ValueError`` for a size that DuckDB does not know.
    """
    with tempfile.TemporaryDirectory(prefix="tidelog-sql-") as directory:
        config = {
            "memory_limit": memory,
            "temp_directory": str(Path(directory)),
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
            "TimeZone": "UTC",
        }
        try:
            database: duckdb.DuckDBPyConnection = _duckdb().connect(":memory:", config=config)
        except _duckdb().Error as error:
            raise ValueError(f"--memory {memory!r}: {error}") from error
        with database:
            yield database


def _paths(column: pa.Field) -> Iterator[tuple[str, ...]]:
    """Yield the paths of a struct's members, and of theirs; nothing for another column."""
    for index in range(column.type.num_fields if _is_struct(column) else 0):
        member = column.type.field(index)
        yield (column.name, member.name)
        for path in _paths(member):
            yield (column.name, *path)


def _is_struct(column: pa.Field) -> bool:
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    return bool(pa.types.is_struct(column.type))


def _raw_name(topic: str) -> str:
    return f"raw:{topic}"


def _raw(topic: str) -> str:
    return quote_identifier(_raw_name(topic))


def _with_columns(table: pa.Table, readers: RecordReaders) -> pa.Table:
    """Add the typed columns. All columns are one chunk: DuckDB reads a table chunk by chunk, and no struct in a struct from its
    middle."""
    table = table.combine_chunks()
    typed, _ = readers.typed(table)
    for column_field, column in zip(typed.schema, typed.columns, strict=True):
        table = table.append_column(column_field, column)
    return table


def _duckdb() -> Any:
    """Import and return DuckDB, an optional library."""
    import duckdb  # noqa: PLC0415

    return duckdb
