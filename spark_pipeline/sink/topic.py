"""Check of a write's topic by the driver before any task runs: it exists, or is created, or the write fails immediately."""

from __future__ import annotations

import uuid

from log_format.delta.committer import Committer
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.stage import topic_log


def ensure_topic(options: SinkOptions) -> None:
    """Create the topic named by the option ``topic`` with ``createPartitions`` partitions if it is missing.

    Raises ``UnknownTopic`` without ``createPartitions``, ``StoreUnavailable``, ``GatewayError``. An existing topic keeps its
    settings.
    """
    if options.topic is None:
        return
    if options.gateways:
        from spark_pipeline.sink.commit_by_gateway import topic_exists  # noqa: PLC0415 - a write to the store needs no HTTP

        if not topic_exists(options.topic, options):
            raise _missing(options.topic)
        return
    log = topic_log(options.store, options.topic)
    if log.refresh().topic_id is not None:
        return
    if options.create_partitions is None:
        raise _missing(options.topic)
    try:
        Committer(log, new_id=_new_id, engine="tidelog-spark").commit(
            CreateTopic(
                name=options.topic,
                partition_count=options.create_partitions,
                config=TopicConfig.parse({}),
                topic_id=_new_id(),
            )
        )
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # created concurrently
            raise


def _new_id() -> str:
    return uuid.uuid4().hex


def _missing(topic: str) -> UnknownTopic:
    error = UnknownTopic(topic)
    error.detail += " Or let the write create it: option createPartitions."
    error.args = (error.detail,)
    return error
