"""Topic of invalid records: key, value and headers unchanged, plus headers with the reason and the origin.

========================  =============================================================
``tidelog.reason``        what is wrong with it
``tidelog.topic``         the topic, partition and offset where it is
``tidelog.partition``
``tidelog.offset``
``tidelog.timestamp``     its timestamp, milliseconds since the epoch
========================  =============================================================

All are text. So an operator can correct a dead letter and send it again, or read the record at its origin.
"""

from __future__ import annotations

import uuid
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import array, coalesce, col, concat, expr, length, lit, struct, unix_millis, when
from pyspark.sql.functions import sum as sum_

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.errors import UnknownTopic
from log_format.topic.changes import AlterTopic, CreateTopic
from log_format.topic.config import TopicConfig
from spark_pipeline.jobs.pipeline.judge import REASON
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.schemas import HEADERS
from spark_pipeline.store_access import cached_store

HEADER_BYTES_MAX: Final = 8 * 1024
"""Maximum size of the added headers: the dead-letter topic must allow records this much larger than the origin does."""

HEADER_BYTES_USUAL: Final = 256
"""Typical size of the added headers without the reason."""

PART_BYTES: Final = 32 * 1024 * 1024
"""Size of one part. A transaction of the sink takes more, but gateways finish none above 64 MiB when the driver dies."""

PREFIX: Final = "tidelog."
"""Prefix of the headers' names."""


def ensure_topic(store: str, topic: str, origin: str) -> TopicConfig:
    """Create the topic if needed, with as many partitions as its origin and unlimited retention. Return the origin's settings.

    An existing topic is kept, but its record limit is raised to the size of dead letters if needed. Raises ``OptionRefused``
    for a topic that could not hold every record, ``UnknownTopic`` when there is no ``origin``, ``StoreUnavailable``,
    ``BackOff``.
    """
    source = TopicLog(cached_store(store), origin, SystemClock()).refresh()
    if source.topic_id is None:
        raise UnknownTopic(origin)
    record_bytes_max = source.config.integer("max.message.bytes") + HEADER_BYTES_MAX
    log = TopicLog(cached_store(store), topic, SystemClock())
    committer = Committer(log, new_id=_new_id, engine="tidelog-spark")
    state = log.refresh()
    if not state.exists:
        wanted = {"retention.ms": -1, "max.message.bytes": record_bytes_max}
        config = TopicConfig.parse(wanted, request_bytes_max=record_bytes_max)
        create = CreateTopic(name=topic, partition_count=source.partition_count, config=config, topic_id=_new_id())
        committer.commit(create)
        return source.config
    if state.config.needs_keys:
        raise OptionRefused(
            "dead_letter_topic", f"{topic} compacts keys (cleanup.policy): dead letters would replace others"
        )
    if state.config.integer("max.message.bytes") < record_bytes_max:
        committer.commit(AlterTopic(partition_count=None, config={"max.message.bytes": record_bytes_max}))
    return source.config


def to_dead_letters(letters: DataFrame) -> DataFrame:
    """Return the rows of ``judge`` that have a reason, with the columns of the sink: ``key``, ``value``, ``headers``."""
    said = {
        "reason": col(REASON),
        "topic": col("_topic"),
        "partition": col("_partition").cast("string"),
        "offset": col("_offset").cast("string"),
        "timestamp": unix_millis("_timestamp").cast("string"),
    }
    added = [
        struct(lit(f"{PREFIX}{name}").alias("key"), text.cast("binary").alias("value")) for name, text in said.items()
    ]
    headers = concat(coalesce(col("_headers"), array().cast(HEADERS)), array(*added))
    return letters.select(col("_key").alias("key"), col("_value").alias("value"), headers.alias("headers"))


def dead_letter_bytes() -> Column:
    """Return an aggregate over the rows of ``judge``: about the bytes of their dead letters, null if there are none."""
    of_headers = expr(
        "aggregate(_headers, 0L, (sum, header) -> sum + length(header.key) + ifnull(length(header.value), 0))"
    )
    own = [coalesce(length(name), lit(0)) for name in ("_key", "_value", REASON)]
    return sum_(when(col(REASON).isNotNull(), reduce(add, own, coalesce(of_headers, lit(0)) + lit(HEADER_BYTES_USUAL))))


def send(
    judged: DataFrame,
    store: str,
    topic: str,
    *,
    size_bytes: int,
    query_id: str,
    batch_id: int,
    part_bytes: int = PART_BYTES,
) -> None:
    """Write the dead letters of a micro-batch, ``size_bytes`` in all. The sink writes each part of a batch once.

    Each part is small enough for a gateway to finish. The number of parts depends only on the records, so a repeated batch has
    the same.
    """
    parts = 1 + size_bytes // part_bytes
    letters = judged.where(col(REASON).isNotNull())
    for part in range(parts):
        name = {"txnAppId": query_id if part == 0 else f"{query_id}-{part}", "txnVersion": str(batch_id)}
        some = to_dead_letters(letters if parts == 1 else letters.where(col("_offset") % parts == part))
        some.write.format("tidelog").mode("append").options(store=store, topic=topic, **name).save()


def _new_id() -> str:
    return uuid.uuid4().hex
