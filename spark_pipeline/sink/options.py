"""Options of the sink, with the names of Spark's Kafka sink, and Delta's for a repeatable job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from log_format.limits import PARTITION_COUNT_MAX
from spark_pipeline.kafka_options import is_kafka_option, warn_no_effect
from spark_pipeline.option_refused import OptionRefused, check_topic

_KNOWN: Final = (
    "store",
    "gateway",
    "tokenFile",
    "topic",
    "createPartitions",
    "txnAppId",
    "txnVersion",
    "includeHeaders",
)
_SPARKS: Final = ("checkpointlocation", "queryname", "outputmode", "path")
"""Spark's own options, which it passes on."""
_APP_ID_BYTES_MAX: Final = 200
_VERSION_MAX: Final = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Parsed options. ``topic``: for every record; None: each record's column ``topic``. Exactly one of the first two is not
    empty."""

    store: str = ""
    gateways: tuple[str, ...] = ()
    """Base URLs, each of a gateway or of a load balancer."""
    token_file: str | None = None
    """Token file on the driver; None: from its environment. Plans and checkpoints have the path, and never a token."""
    topic: str | None = None
    create_partitions: int | None = None
    """Number of partitions with which a missing ``topic`` is created; None: the write fails then."""
    app_id: str | None = None
    """Name of a repeatable job: with ``version`` it identifies what the job writes."""
    version: int | None = None


def parse_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Return the options of a writer. Raises ``OptionRefused``."""
    known = {name.lower(): name for name in _KNOWN}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in known:
            values[known[name.lower()]] = str(value).strip()
        elif name.lower() == "token":
            raise OptionRefused(
                name, "would stand in Spark's plans: give tokenFile, or TIDELOG_TOKEN_FILE to the driver"
            )
        elif is_kafka_option(name):
            warn_no_effect(name, str(value))
        elif name.lower() not in _SPARKS:
            raise OptionRefused(name, f"there is no such option; there are {', '.join(_KNOWN)}")
    store, gateways = values.get("store", ""), _gateways(values.get("gateway", ""))
    if store and gateways:
        raise OptionRefused("gateway", "is given beside store: records go one way or the other")
    if not store and not gateways:
        raise OptionRefused("store", "is missing: a directory or s3://bucket/prefix, or give gateway")
    token_file = values.get("tokenFile")
    if token_file is not None and not gateways:
        raise OptionRefused("tokenFile", "is for gateways: the store has its own credentials")
    topic = values.get("topic")
    if topic is not None:
        check_topic("topic", topic)
    app_id, version = _named(values, streaming=streaming)
    return SinkOptions(
        store=store,
        gateways=gateways,
        token_file=token_file or None,
        topic=topic,
        create_partitions=_create_partitions(values.get("createPartitions"), topic),
        app_id=app_id,
        version=version,
    )


def _create_partitions(text: str | None, topic: str | None) -> int | None:
    if text is None:
        return None
    if topic is None:
        raise OptionRefused("createPartitions", "goes with topic: topics that only rows name are not created")
    if not text.isdecimal() or not 1 <= int(text) <= PARTITION_COUNT_MAX:
        raise OptionRefused("createPartitions", f"{text!r} is not a number from 1 to {PARTITION_COUNT_MAX}")
    return int(text)


def _gateways(text: str) -> tuple[str, ...]:
    urls = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
            raise OptionRefused("gateway", f"{url!r} is not http://host:port; several are separated by commas")
    return urls


def _named(values: Mapping[str, str], *, streaming: bool) -> tuple[str | None, int | None]:
    """Return ``txnAppId`` and ``txnVersion``, both or none."""
    app_id, version = values.get("txnAppId"), values.get("txnVersion")
    if app_id is None and version is None:
        return None, None
    if streaming:
        raise OptionRefused("txnAppId", "is for batch writes: a stream's batches have names already")
    if not app_id or len(app_id.encode()) > _APP_ID_BYTES_MAX or not app_id.isprintable():
        raise OptionRefused("txnAppId", f"must go with txnVersion, and be 1 to {_APP_ID_BYTES_MAX} bytes of text")
    if version is None or not version.isdecimal() or int(version) > _VERSION_MAX:
        raise OptionRefused("txnVersion", f"must go with txnAppId, and be a number from 0 to {_VERSION_MAX}")
    return app_id, int(version)
