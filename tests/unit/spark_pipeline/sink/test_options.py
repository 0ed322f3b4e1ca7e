"""The sink's options: what is given comes through, and what is wrong or contradicts is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_format.errors import UnknownTopic
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.sink.batch_name import job_batch_name
from spark_pipeline.sink.options import SinkOptions, parse_sink_options
from spark_pipeline.sink.stage import topic_log
from spark_pipeline.sink.topic import ensure_topic


def test_what_is_given() -> None:
    """In any case of letters, as Spark hands it on; several gateways by commas."""
    urls = " http://one:8080/ , https://two "
    assert parse_sink_options(
        {"GATEWAY": urls, "topic": "t", "checkpointLocation": "x"}, streaming=True
    ) == SinkOptions(gateways=("http://one:8080", "https://two"), topic="t")
    with_token = parse_sink_options({"gateway": "https://two", "tokenfile": "/run/token"}, streaming=True)
    assert with_token == SinkOptions(gateways=("https://two",), token_file="/run/token")
    named = {"store": "s3://bucket", "txnAppId": "job", "txnVersion": "7"}
    assert parse_sink_options(named, streaming=False) == SinkOptions(store="s3://bucket", app_id="job", version=7)


@pytest.mark.parametrize(
    ("given", "streaming", "message"),
    [
        ({}, True, "store: is missing"),
        ({"store": "s", "gateway": "http://g"}, True, "gateway: is given beside store"),
        ({"gateway": "g:8080"}, True, "gateway: 'g:8080' is not http"),
        ({"gateway": "http://g/v1"}, True, "gateway: 'http://g/v1' is not http"),
        ({"store": "s", "topic": "a b"}, True, "topic: "),
        ({"store": "s", "txnAppId": "a", "txnVersion": "1"}, True, "txnAppId: is for batch writes"),
        ({"store": "s", "txnAppId": "a"}, False, "txnVersion: must go with txnAppId"),
        ({"store": "s", "txnVersion": "1"}, False, "txnAppId: must go with txnVersion"),
        ({"store": "s", "txnAppId": "a", "txnVersion": "-1"}, False, "txnVersion: "),
        ({"store": "s", "txnAppId": "a" * 201, "txnVersion": "1"}, False, "txnAppId: "),
        ({"store": "s", "tokenFile": "t"}, True, "tokenFile: is for gateways"),
        ({"gateway": "http://g", "token": "tl_a_b"}, True, "token: would stand in Spark's plans"),
        ({"store": "s", "createPartitions": "2"}, True, "createPartitions: goes with topic"),
        ({"store": "s", "topic": "t", "createPartitions": "0"}, True, "createPartitions: '0' is not a number from 1"),
    ],
)
def test_what_is_wrong(given: dict[str, str], streaming: bool, message: str) -> None:
    """By the option's name."""
    with pytest.raises(OptionRefused, match=message):
        parse_sink_options(given, streaming=streaming)


def test_a_name_counts_for_its_topic() -> None:
    """One name for writes to two topics, as Delta's users give one for two tables: neither is taken for the other's repeat."""
    jobs = [
        job_batch_name(SinkOptions(store="s", topic=topic, app_id="é" * 100, version=1))
        for topic in ("a" * 249, "b", None)
    ]
    ids = {job.transactional_id for job in jobs if job is not None}
    assert len(ids) == 3
    assert max(len(each.encode()) for each in ids) <= 255
    assert job_batch_name(SinkOptions(store="s", topic="a")) is None


def test_options_of_kafkas_client_are_warned_about() -> None:
    """But not those that say what always holds."""
    with pytest.warns(UserWarning, match="kafka.linger.ms has no effect"):
        parse_sink_options({"store": "s", "kafka.linger.ms": "5", "kafka.acks": "all"}, streaming=True)


def test_a_missing_topic_is_created_or_refused_before_any_task(tmp_path: Path) -> None:
    """With so many partitions as the option says; one that is there stays as it is."""
    store = str(tmp_path)
    with pytest.raises(UnknownTopic, match="option createPartitions"):
        ensure_topic(SinkOptions(store=store, topic="t"))
    for partitions in (3, 5):
        ensure_topic(SinkOptions(store=store, topic="t", create_partitions=partitions))
    assert topic_log(store, "t").refresh().partition_count == 3
