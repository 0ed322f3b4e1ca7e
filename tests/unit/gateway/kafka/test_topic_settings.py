"""Kafka's names of topic settings: each is ours, told with Kafka's default, or refused; nothing is taken for something else."""

from __future__ import annotations

import pytest

from gateway.kafka import topic_settings
from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.config import SETTINGS, TopicConfig

# fmt: off
KAFKA_4_3 = frozenset((
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms", "follower.replication.throttled.replicas",
    "index.interval.bytes", "leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms",
    "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate",
    "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes", "retention.ms",
    "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
))
# fmt: on


def _told(**overrides: object) -> dict[str, topic_settings.DescribedSetting]:
    config = TopicConfig.parse({name.replace("_", "."): value for name, value in overrides.items()})
    return {one.name: one for one in topic_settings.describe_settings(config)}


def test_every_setting_of_kafka_and_of_ours_is_told_once() -> None:
    """A tool that looks for a name of Kafka's 4.3 finds it; none of ours is hidden."""
    told = list(topic_settings.describe_settings(TopicConfig.parse({})))
    names = [one.name for one in told]
    assert names == sorted(set(names))
    assert {name for name in names if not name.startswith("tidelog.")} == KAFKA_4_3
    ours = {name.removeprefix("tidelog.") for name in names}
    assert set(SETTINGS) <= ours
    assert not any(one.is_set for one in told)
    assert all(one.value == one.default for one in told)


def test_what_is_told_can_be_set_again() -> None:
    """Tools copy a topic's settings as they read them."""
    config = TopicConfig.parse(
        {"retention.ms": 5, "cleanup.policy": "compact,delete", "flush.ms": 9, "compression.type": "gzip"}
    )
    given = {one.name: one.value for one in topic_settings.describe_settings(config)}
    again = TopicConfig.parse(topic_settings.translate_settings(given))
    assert {name: again.effective()[name] for name in config.effective()} == config.effective()


def test_what_was_set_is_told_as_set_with_the_default_beside_it() -> None:
    """Kafka's ``flush.ms`` and ours are two settings."""
    told = _told(retention_ms=5, flush_ms=7)
    assert told["retention.ms"].is_set
    assert (told["retention.ms"].value, told["retention.ms"].default) == ("5", "604800000")
    assert (told["tidelog.flush.ms"].value, told["tidelog.flush.ms"].is_set) == ("7", True)
    assert told["flush.ms"].value == "9223372036854775807", "Kafka's flush.ms is not ours"


def test_compression_is_the_producers_until_it_is_set() -> None:
    """Kafka's default is told where no user chose a codec."""
    assert _told()["compression.type"].value == "producer"
    assert _told(compression_type="zstd")["compression.type"].value == "zstd"
    assert topic_settings.translate_settings({"compression.type": "producer"}) == {"compression.type": None}


@pytest.mark.parametrize("name", sorted(topic_settings.UNSUPPORTED))
def test_a_name_without_meaning_is_taken_with_kafkas_default(name: str) -> None:
    """Nothing is promised that does not hold anyway."""
    assert topic_settings.translate_settings({name: topic_settings.UNSUPPORTED[name].default}) == {}
    assert topic_settings.translate_settings({name: None}) == {}


@pytest.mark.parametrize("name", sorted(topic_settings.UNSUPPORTED))
def test_another_value_is_refused_unless_clients_send_it_by_themselves(name: str) -> None:
    """A promise that can't be kept is not taken."""
    if topic_settings.UNSUPPORTED[name].is_ignored:
        assert topic_settings.translate_settings({name: "17"}) == {}
        return
    with pytest.raises(RequestRefused, match=r"means nothing here") as refusal:
        topic_settings.translate_settings({name: "17"})
    assert refusal.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("name", ["nonsense", "tidelog.nonsense", "tidelog.retention.ms", "commit.mode", "owners", ""])
def test_any_other_name_is_refused_with_those_that_there_are(name: str) -> None:
    """A typing error is told, with the names that would work."""
    with pytest.raises(RequestRefused, match=r"settings are cleanup\.policy, .*tidelog\.flush\.ms") as refusal:
        topic_settings.translate_settings({name: "1"})
    assert refusal.value.code is ErrorCode.INVALID_CONFIG
