"""The options of the sink, by the names of Spark's Kafka sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from log_format.errors import RequestRefused
from log_format.topic_config import check_topic_name
from spark_pipeline.source.options import OptionRefused

_KNOWN: Final = ("store", "topic", "includeHeaders")
_SPARKS: Final = ("checkpointlocation", "queryname", "outputmode", "path")
"""What Spark hands on of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """``topic``: where every record goes; None: where its column ``topic`` says."""

    store: str
    topic: str | None


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a writer. Raises ``OptionRefused``."""
    known = {name.lower(): name for name in _KNOWN}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in known:
            values[known[name.lower()]] = str(value)
        elif name.lower() not in _SPARKS:
            raise OptionRefused(name, f"there is no such option; there are {', '.join(_KNOWN)}")
    store = values.get("store", "")
    if not store.strip():
        raise OptionRefused("store", "is missing: a directory or s3://bucket/prefix")
    topic = values.get("topic")
    if topic is not None:
        try:
            check_topic_name(topic)
        except RequestRefused as refused:
            raise OptionRefused("topic", refused.detail) from refused
    return SinkOptions(store=store, topic=topic)
