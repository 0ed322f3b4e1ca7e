"""Topics as DataFrames, with the columns of Spark's Kafka source.

Batches are read by the reader expected to be faster (``way``): ``format("tidelog")``, or Spark's own Delta reader. The latter
is native Parquet with column pruning; filters on ``partition``, ``offset`` and ``timestamp`` skip whole segments by their
statistics. Both give the same records. The caller can choose a third one (``Way.PARQUET``), for the records that exist at the
call. Streams use Delta's reader here.

1. Nothing is ever committed to the topic's table.
2. A stream sees each record once per checkpoint, also across compaction, which moves records without changing data.
3. A stream does not fail when retention deletes old segments (``ignoreDeletes``).
4. A deleted topic is unknown here, too. A stream that was reading a topic that is recreated continues with the new one.
5. Batches include records that only the topic's journal has. Streams get these from the table, once they are drained.
6. Records of one partition arrive in offset order from micro-batch to micro-batch; within one, order them by ``offset``.

Absent: log starts, in streams and in older versions. Records deleted from a partition's beginning (``:delete-records``)
disappear there only with their segment, which may still hold later records.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.types import StructType

from log_format.checkpoints.journal_log import JournalLogs
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.errors import UnknownTopic
from log_format.journal.refresh import refresh_topic
from log_format.layout import topic_root
from log_format.records.typed_columns import TYPED_NAMES
from log_format.topic.config import PROPERTY_PREFIX, check_topic_name
from log_format.topic.pins import find_pin
from log_format.topic.state import DELETED_PROPERTY, TopicState
from spark_pipeline.driver_store import driver_store
from spark_pipeline.schemas import CREATE_TIME, KAFKA_SOURCE, LOG_APPEND_TIME, TOPIC_TABLE, typed_fields
from spark_pipeline.source.planning import timestamp_type
from spark_pipeline.way import Way, faster_way

_TIMESTAMP_TYPE = PROPERTY_PREFIX + "message.timestamp.type"
_OFFSET_END: Final = 2**63 - 1
_NO_TABLE = ("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "PATH_NOT_FOUND")


def table_path(store: str, topic: str) -> str:
    """Return the location of the topic's table in Hadoop's form: ``s3://…`` unchanged, a directory as ``file:/…``, not
    percent-encoded.

    Raises ``RequestRefused`` for an invalid topic name.
    """
    below = topic_root(check_topic_name(topic)).rstrip("/")
    if store.startswith("file:"):
        return f"file:{unquote(store.removeprefix('file:').removeprefix('//')).rstrip('/')}/{below}"
    if "://" in store:
        return f"{store.rstrip('/')}/{below}"
    return f"file:{Path(store).absolute()}/{below}"


def read_topic(
    spark: SparkSession, store: str, topic: str, *, version: int | str | None = None, way: Way | None = None
) -> DataFrame:
    """Return the topic's records as of a query, or all of ``version`` of its table: a number (``table_version`` of the API), or
    the name of a pin, which stays readable until the pin ends.

    ``way``: the reader; by default the one expected to be faster for the whole topic. Only Delta's can read a version. Log
    starts are those of this call or later ones. The session must come from ``session``, or have been given to ``register``.

    With ``value.keep=false`` ``Way.TIDELOG`` is the default, since values that are not stored are null by the others.

    ``Way.PARQUET`` is the fastest: Spark's Parquet reader on the segments that the log names at this call, with no table log to
    replay for a query. A later query gives the records of this call, as long as the segments exist: for
    ``deleted.file.retention.ms``, in a busy topic for an hour at least (``deleted.file.retention.count``).

    Columns: ``schemas.KAFKA_SOURCE``, and for a typed topic the typed columns that its table has at the call (``data``,
    ``key_data``, ``data_error``). Raises ``UnknownTopic``, ``ValueError`` for a version with another way than
    ``Way.DELTA`` and for a pin that the topic has not, ``StoreUnavailable``, ``CorruptData``; reading raises when the log no
    longer has the version.
    """
    if version is not None:
        if way not in (None, Way.DELTA):
            raise ValueError("a version is read by Way.DELTA")
        number = version if isinstance(version, int) else _pinned_version(spark, store, topic, version)
        older = spark.read.format("delta").option("versionAsOf", number)
        return with_kafka_columns(older.load(table_path(store, topic)), topic, _timestamp_type(spark, store, topic))
    path = table_path(store, topic)
    opened, clock = driver_store(spark, store), SystemClock()
    log = TopicLog(opened, topic, clock)
    state = refresh_topic(log, JournalLogs(opened, clock).get)
    if not state.exists:
        raise UnknownTopic(topic)
    starts = [state.log_start(partition) for partition in range(state.partition_count)]
    if way is None:
        record_count = sum(state.high_watermark(partition) for partition in range(state.partition_count)) - sum(starts)
        way = faster_way(
            commit_count=max(state.version - log.first_kept_version(), 0),
            segment_count=state.manifest.segment_count(),
            record_count=record_count,
            leaves_out_values=state.config.choice("value.keep") == "false",
        )
    if way is Way.TIDELOG:
        return _by_tidelog(spark, store).option("subscribe", topic).load()
    by_name = way is Way.PARQUET
    records = _segments(spark, path, log.state) if by_name else spark.read.format("delta").load(path)
    if any(starts):
        # A partition added after the look above has no log start here.
        records = records.where(f"offset >= {_of_partition(starts, otherwise=0)}")
    if state.attachment is None:
        return with_kafka_columns(records, topic, timestamp_type(state))
    # The table up to its end at the look; from there on the journal, and records drained into the table since.
    ends = log.state.next_offsets.tolist()
    records = records.where(f"offset < {_of_partition(ends, otherwise=_OFFSET_END)}")
    tail = _by_tidelog(spark, store).option("assign", json.dumps({topic: list(range(len(ends)))}))
    tail = tail.option("startingOffsets", _positions(topic, ends))
    if by_name:
        tail = tail.option("endingOffsets", _positions(topic, state.next_offsets.tolist()))
    return with_kafka_columns(records, topic, timestamp_type(state)).unionByName(tail.load())


def _pinned_version(spark: SparkSession, store: str, topic: str, name: str) -> int:
    """Return the version that a pin of the topic names."""
    state = TopicLog(driver_store(spark, store), topic, SystemClock()).refresh()
    if not state.exists:
        raise UnknownTopic(topic)
    pin = find_pin(state.pins, name)
    if pin is None:
        names = ", ".join(pin.name for pin in state.pins) or "none"
        raise ValueError(f"topic {topic!r} has no pin {name!r}: it has {names}")
    return pin.version


def _by_tidelog(spark: SparkSession, store: str) -> DataFrameReader:
    place = store if ":" in store else str(Path(store).absolute())
    return spark.read.format("tidelog").options(store=place, includeHeaders="true")


def _of_partition(offsets: Sequence[int], *, otherwise: int) -> str:
    """Return an SQL expression for the offset of a record's partition."""
    by_partition = ", ".join(f"{offset}L" for offset in offsets)
    return f"coalesce(try_element_at(array({by_partition}), partition + 1), {otherwise}L)"


def _positions(topic: str, offsets: Sequence[int]) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(offsets)}})


def stream_topic(
    spark: SparkSession,
    store: str,
    topic: str,
    *,
    max_files_per_trigger: int | None = None,
    starting_version: int | None = None,
) -> DataFrame:
    """Return the topic's records as a stream: the existing ones, then each commit.

    ``max_files_per_trigger`` (1 and up; Delta's default is 1000) bounds a micro-batch in segments. With ``starting_version`` a
    query without a checkpoint reads only commits from that version of the table on; a restarted query continues at its
    checkpoint.

    Columns: as those of ``read_topic``. Raises ``UnknownTopic``.
    """
    reader = spark.readStream.format("delta").option("ignoreDeletes", "true")
    if max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", max_files_per_trigger)
    if starting_version is not None:
        reader = reader.option("startingVersion", starting_version)
    timestamp_type = _timestamp_type(spark, store, topic)
    return with_kafka_columns(reader.load(table_path(store, topic)), topic, timestamp_type)


def with_kafka_columns(records: DataFrame, topic: str, timestamp_type: int) -> DataFrame:
    """Convert a topic's table (``schemas.TOPIC_TABLE``, and any typed columns) to the columns of Spark's Kafka source
    (``schemas.KAFKA_SOURCE``), with the typed columns behind them."""
    constants = {"topic": lit(topic), "timestampType": lit(timestamp_type)}
    return records.select(
        *[constants.get(field.name, col(field.name)).cast(field.dataType).alias(field.name) for field in KAFKA_SOURCE],
        *[name for name in records.columns if name in TYPED_NAMES],
    )


def _segments(spark: SparkSession, path: str, state: TopicState) -> DataFrame:
    """Return the records of all segments of the topic at ``path``: ``schemas.TOPIC_TABLE``, and its typed columns."""
    paths = [f"{path}/{segment.path}" for segment in state.manifest.segments()]
    schema = StructType([*TOPIC_TABLE, *typed_fields(state.columns)])
    if not paths:
        return spark.createDataFrame([], schema)
    # Names are literal: a bracket in one is no pattern.
    return spark.read.schema(schema).option("__globPaths__", "false").parquet(*paths)


def _timestamp_type(spark: SparkSession, store: str, topic: str) -> int:
    """Return the topic's current ``message.timestamp.type``, in the Kafka source's form."""
    quoted = table_path(store, topic).replace("`", "``")
    try:
        properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES delta.`{quoted}`").collect()}
    except AnalysisException as error:
        if error.getCondition() in _NO_TABLE:
            raise UnknownTopic(topic) from error
        raise
    if properties.get(DELETED_PROPERTY) == "true":
        raise UnknownTopic(topic)
    return LOG_APPEND_TIME if properties.get(_TIMESTAMP_TYPE) == "LogAppendTime" else CREATE_TIME
