"""Options: Kafka's names and meanings, and refusals that name the option."""

from __future__ import annotations

import pytest

from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.source.offsets import EARLIEST, LATEST
from spark_pipeline.source.options import parse_options

GIVEN = {"store": "/logs", "subscribe": "a"}


def test_names_are_read_in_any_case_and_defaults_are_kafkas() -> None:
    """A batch reads from earliest to latest, a stream from latest on; loss fails, headers are left out."""
    batch = parse_options({"STORE": "/logs", "Subscribe": "a, b ,a"}, streaming=False)
    assert (batch.store, batch.subscription.topics) == ("/logs", ("a", "b"))
    assert (batch.starting.offsets, batch.ending.offsets) == (EARLIEST, LATEST)
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert parse_options(GIVEN, streaming=True).starting.offsets == LATEST


def test_offsets_by_partition() -> None:
    """Kafka's JSON, with -1 and -2."""
    options = parse_options(
        GIVEN | {"startingOffsets": '{"a":{"0":23,"1":-2}}', "endingOffsets": '{"a":{"0":-1,"1":50}}'}, streaming=False
    )
    assert options.starting.offsets == {"a": {0: 23, 1: EARLIEST}}
    assert options.ending.offsets == {"a": {0: LATEST, 1: 50}}


def test_assign_names_partitions() -> None:
    """Of each topic only these are read."""
    options = parse_options({"store": "/logs", "assign": '{"a":[1,0,1],"b":[2]}'}, streaming=True)
    assert options.subscription.assigned == {"a": (0, 1), "b": (2,)}


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500", 500), ("30s", 30_000), ("15m", 900_000), ("1 h", 3_600_000)]
)
def test_durations(text: str, milliseconds: int) -> None:
    """Written as in Spark."""
    assert parse_options(GIVEN | {"maxTriggerDelay": text}, streaming=True).trigger_delay_ms_max == milliseconds


@pytest.mark.parametrize(
    ("option", "more", "streaming"),
    [
        ("subscribePattern", {"subscribePattern": "a.*"}, False),
        ("assign", {"assign": '{"a":[0]}'}, False),
        ("startingOffsets", {"startingOffsets": "latest"}, False),
        ("startingOffsets", {"startingOffsets": '{"a":{"0":-1}}'}, False),
        ("startingOffsets", {"startingOffsets": '{"a":{"0":-3}}'}, True),
        ("startingOffsets", {"startingOffsets": "soonest"}, True),
        ("startingOffsets", {"startingOffsets": '{"a":{"x":1}}'}, True),
        ("endingOffsets", {"endingOffsets": "earliest"}, False),
        ("endingOffsets", {"endingOffsets": '{"a":{"0":-2}}'}, False),
        ("endingOffsets", {"endingOffsets": "latest"}, True),
        ("endingTimestamp", {"endingTimestamp": "1"}, True),
        ("endingOffsetsByTimestamp", {"endingOffsetsByTimestamp": '{"a":{"0":1}}'}, True),
        ("startingTimestamp", {"startingTimestamp": "yesterday"}, True),
        ("startingOffsetsByTimestamp", {"startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, True),
        ("startingOffsetsByTimestampStrategy", {"startingOffsetsByTimestampStrategy": "guess"}, True),
        ("maxOffsetsPerTrigger", {"maxOffsetsPerTrigger": "0"}, True),
        ("minOffsetsPerTrigger", {"minOffsetsPerTrigger": "many"}, True),
        ("minOffsetsPerTrigger", {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, True),
        ("maxTriggerDelay", {"maxTriggerDelay": "soon"}, True),
        ("maxTriggerDelay", {"maxTriggerDelay": "3 weeks"}, True),
        ("failOnDataLoss", {"failOnDataLoss": "maybe"}, True),
        ("includeHeaders", {"includeHeaders": "1"}, True),
        ("filterHeaders", {"filterHeaders": "type:a"}, False),
        ("filterHeaders", {"filterHeaders": '["type"]'}, True),
        ("filterHeaders", {"filterHeaders": "[" + ",".join(['"a:b"'] * 17) + "]"}, True),
        ("filterHeaders", {"filterHeaders": '{"type": "a"}'}, True),
        ("filterKey", {"filterKey": ""}, True),
        ("minPartitions", {"minPartitions": "-1"}, False),
        ("maxRecordsPerPartition", {"maxRecordsPerPartition": "1.5"}, False),
        ("groupId", {"groupId": " "}, True),
        ("subscribe", {"subscribe": " , "}, True),
        ("subscribe", {"subscribe": "no topic/name"}, True),
        ("groupId", {"groupId": "a", "kafka.group.id": "b"}, True),
        ("startingOfsets", {"startingOfsets": "earliest"}, True),
    ],
)
def test_what_is_wrong_is_refused_by_name(option: str, more: dict[str, str], streaming: bool) -> None:
    """Nothing is ignored silently: the message begins with the option that has to change."""
    with pytest.raises(OptionRefused) as refused:
        parse_options(GIVEN | more, streaming=streaming)
    assert refused.value.option == option
    assert str(refused.value).startswith(f"{option}: ")


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("store", {"subscribe": "a"}),
        ("store", {"subscribe": "a", "store": ""}),
        ("subscribe", {"store": "/logs"}),
        ("subscribePattern", {"store": "/logs", "subscribePattern": "(a"}),
        ("assign", {"store": "/logs", "assign": '{"a":[]}'}),
        ("assign", {"store": "/logs", "assign": '{"a":[-1]}'}),
        ("assign", {"store": "/logs", "assign": "a"}),
    ],
)
def test_what_is_missing_is_refused_by_name(option: str, given: dict[str, str]) -> None:
    """A query must say where the records are and which."""
    with pytest.raises(OptionRefused) as refused:
        parse_options(given, streaming=False)
    assert refused.value.option == option


def test_options_of_kafkas_client_are_warned_about() -> None:
    """They have nothing to act upon; what means the same is taken, and what always holds is left out in silence."""
    for name in ("kafka.bootstrap.servers", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries"):
        with pytest.warns(UserWarning, match=f"option {name} has no effect"):
            parse_options(GIVEN | {name: "1"}, streaming=True)
    options = parse_options(GIVEN | {"kafka.group.id": "g", "kafka.isolation.level": "read_committed"}, streaming=True)
    assert options.group == "g"
