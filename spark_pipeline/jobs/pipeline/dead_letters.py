"""The topic of records that do not fit: key, value and headers as they were, and headers that say why and from where.

========================  =============================================================
``tidelog.reason``        what is wrong with it
``tidelog.topic``         the topic, partition and offset where it is
``tidelog.partition``
``tidelog.offset``
``tidelog.timestamp``     its timestamp, milliseconds since the epoch
========================  =============================================================

All are text. So a dead letter can be mended and sent again, or read where it came from.
"""

from __future__ import annotations

import uuid
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import array, coalesce, col, concat, lit, struct, unix_millis

from log_format.clock import SystemClock
from log_format.committer import Committer
from log_format.errors import UnknownTopic
from log_format.topic_changes import AlterTopic, CreateTopic
from log_format.topic_config import TopicConfig
from log_format.topic_log import TopicLog
from spark_pipeline.jobs.pipeline.judge import REASON
from spark_pipeline.schemas import HEADERS
from spark_pipeline.source.options import OptionRefused
from spark_pipeline.source.store_access import opened

HEADER_BYTES_MAX: Final = 8 * 1024
"""What the headers add to a record at most: so much larger than the records of its origin the topic's must be allowed to be."""

PREFIX: Final = "tidelog."
"""Of the headers' names."""


def ensure_topic(store: str, topic: str, origin: str) -> None:
    """Make the topic where there is none, with as many partitions as its origin and without an end to its retention.

    One that exists is taken as it is, but must allow records as large as these become. Raises ``OptionRefused`` for a topic that
    could not take every record, ``UnknownTopic`` when there is no ``origin``, ``StoreUnavailable``, ``BackOff``.
    """
    source = TopicLog(opened(store), origin, SystemClock()).refresh()
    if source.topic_id is None:
        raise UnknownTopic(origin)
    record_bytes_max = source.config.integer("max.message.bytes") + HEADER_BYTES_MAX
    log = TopicLog(opened(store), topic, SystemClock())
    committer = Committer(log, new_id=_new_id, engine="tidelog-spark")
    state = log.refresh()
    if not state.exists:
        wanted = {"retention.ms": -1, "max.message.bytes": record_bytes_max}
        config = TopicConfig.parse(wanted, request_bytes_max=record_bytes_max)
        create = CreateTopic(name=topic, partition_count=source.partition_count, config=config, topic_id=_new_id())
        committer.commit(create)
        return
    if state.config.needs_keys:
        raise OptionRefused(
            "dead_letter_topic", f"{topic} compacts keys (cleanup.policy): dead letters would replace others"
        )
    if state.config.integer("max.message.bytes") < record_bytes_max:
        committer.commit(AlterTopic(partition_count=None, config={"max.message.bytes": record_bytes_max}))


def dead_letters(judged: DataFrame) -> DataFrame:
    """What ``judge`` found not to fit, with the columns of the sink: ``key``, ``value``, ``headers``."""
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
    letters = judged.where(col(REASON).isNotNull())
    return letters.select(col("_key").alias("key"), col("_value").alias("value"), headers.alias("headers"))


def send(letters: DataFrame, store: str, topic: str, *, query_id: str, batch_id: int) -> None:
    """Write the dead letters of a micro-batch; those of a batch that is repeated are there already, and stay as they are."""
    named = {"txnAppId": query_id, "txnVersion": str(batch_id)}
    letters.write.format("tidelog").mode("append").options(store=store, topic=topic, **named).save()


def _new_id() -> str:
    return uuid.uuid4().hex
