"""Topic names and settings: what is taken, what is refused, and how a refusal reads."""

from __future__ import annotations

import pytest

from log_format import limits
from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.config import SETTINGS, SHOWN_WHERE_SET, TopicConfig, check_topic_name
from tests.support.documents import pages

FORMAT = pages("format")
DEFAULTS = {
    "retention.ms": 604_800_000,
    "retention.bytes": -1,
    "cleanup.policy": "delete",
    "delete.retention.ms": 86_400_000,
    "min.compaction.lag.ms": 0,
    "max.message.bytes": 1_048_576,
    "flush.ms": 250,
    "flush.bytes": 8_388_608,
    "compression.type": "zstd",
    "message.timestamp.type": "CreateTime",
    "commit.mode": "auto",
    "delay.max.ms": 2_592_000_000,
    "drain.ms": 240_000,
}
"""docs/http-api.md section 3.6."""


@pytest.mark.parametrize("name", ["a", "A-Z.0_9", "..a", "a" * 249, "...", "-"])
def test_a_topic_may_be_called_so(name: str) -> None:
    """1 to 249 of ``[A-Za-z0-9._-]`` name a topic."""
    assert check_topic_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "a/b", "a b", "ä", "a\n", "a\0", "../x", "a%2Fb", None, 7, ["a"], "٣"]
)
def test_a_topic_may_not_be_called_so(name: object) -> None:
    """Everything else is refused with ``INVALID_TOPIC_NAME``, path tricks first of all."""
    with pytest.raises(RequestRefused) as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_NAME
    assert caught.value.fields["errors"][0]["where"] == "/name"


def test_defaults_are_kafkas() -> None:
    """A topic that was created without settings has the contract's defaults, in its order."""
    assert list(TopicConfig.parse({}).effective().items()) == list(DEFAULTS.items())
    assert TopicConfig.parse({}).properties() == {}


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("retention.ms", -1, -1),
        ("retention.ms", "86400000", 86_400_000),
        ("retention.ms", " 7 ", 7),
        ("retention.bytes", 0, 0),
        ("retention.bytes", 2**63 - 1, 2**63 - 1),
        ("cleanup.policy", "compact,delete", "compact,delete"),
        ("cleanup.policy", "delete, compact", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("flush.ms", 0, 0),
        ("flush.ms", limits.FLUSH_MS_MAX, limits.FLUSH_MS_MAX),
        ("flush.bytes", "1", 1),
        ("max.message.bytes", limits.REQUEST_BYTES_MAX, limits.REQUEST_BYTES_MAX),
        ("compression.type", "uncompressed", "uncompressed"),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
    ],
)
def test_a_value_is_taken(name: str, given: object, value: object) -> None:
    """Numbers and text that parses are taken alike, and come back as what they are."""
    config = TopicConfig.parse({name: given})
    assert config.effective() == DEFAULTS | {name: value}
    assert TopicConfig.from_properties(config.properties()) == config


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("retention.ms", -2),
        ("retention.ms", "1.5"),
        ("retention.ms", 1.0),
        ("retention.ms", True),
        ("retention.ms", ""),
        ("retention.ms", "٣"),
        ("retention.ms", "1_000"),
        ("retention.ms", 2**63),
        ("retention.ms", "9" * 5_000),
        ("retention.ms", [1]),
        ("delete.retention.ms", -1),
        ("flush.ms", limits.FLUSH_MS_MAX + 1),
        ("flush.bytes", 0),
        ("max.message.bytes", limits.REQUEST_BYTES_MAX + 1),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", "Delete"),
        ("compression.type", "brotli"),
        ("compression.type", 1),
        ("message.timestamp.type", ""),
        ("Retention.ms", 1),
        ("no/such~setting", 1),
    ],
)
def test_a_value_is_refused(name: str, given: object) -> None:
    """A value out of range or of another kind, or a setting that does not exist: ``INVALID_CONFIG``, with its JSON pointer."""
    with pytest.raises(RequestRefused) as caught:
        TopicConfig.parse({name: given})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    pointer = name.replace("~", "~0").replace("/", "~1")
    assert [error["where"] for error in caught.value.fields["errors"]] == [f"/config/{pointer}"]


def test_all_errors_are_listed_up_to_a_bound() -> None:
    """A refusal names every setting that is wrong, at most as many as the contract allows."""
    wrong = {f"wrong.{number}": 1 for number in range(limits.REPORTED_ERRORS_MAX + 5)}
    with pytest.raises(RequestRefused) as caught:
        TopicConfig.parse({"flush.ms": -1, **wrong})
    assert len(caught.value.fields["errors"]) == limits.REPORTED_ERRORS_MAX
    assert caught.value.fields["errors"][0]["where"] == "/config/flush.ms"


def test_null_gives_the_default_back() -> None:
    """Altering sets what is named, leaves the rest, and ``None`` takes a setting's value away again."""
    config = TopicConfig.parse({"flush.ms": 10, "flush.bytes": 20})
    assert config.altered({"flush.ms": None, "retention.ms": 5}).overrides == {"flush.bytes": 20, "retention.ms": 5}
    assert TopicConfig.parse({"flush.ms": None}).overrides == {}


def test_a_smaller_gateway_allows_smaller_records() -> None:
    """``max.message.bytes`` is never above what one request may bring."""
    TopicConfig.parse({"max.message.bytes": 2_000}, request_bytes_max=2_000)
    with pytest.raises(RequestRefused):
        TopicConfig.parse({"max.message.bytes": 2_001}, request_bytes_max=2_000)


def test_unreadable_properties_do_not_hide_a_topic() -> None:
    """What this version can't read in a table's properties has its default; other properties of a table mean nothing."""
    properties = {
        "tidelog.flush.ms": "soon",
        "tidelog.flush.bytes": "7",
        "tidelog.from.the.future": "1",
        "delta.x": "y",
    }
    assert TopicConfig.from_properties(properties).overrides == {"flush.bytes": 7}


def test_overrides_are_what_somebody_asked_for() -> None:
    """A default that was asked for by name is kept, so that it stays when defaults change; accessors give either kind."""
    config = TopicConfig.parse({"flush.ms": 250})
    assert config.properties() == {"tidelog.flush.ms": "250"}
    assert (config.integer("flush.ms"), config.choice("compression.type")) == (250, "zstd")
    assert set(config.effective()) == set(SETTINGS) - SHOWN_WHERE_SET
    own = TopicConfig.parse({name: SETTINGS[name].default for name in SHOWN_WHERE_SET})
    assert set(own.effective()) == set(SETTINGS)


def test_the_specification_lists_every_setting_with_its_default() -> None:
    """The document alone tells a reader without Tidelog what an absent property of a table means."""
    text = FORMAT.partition("| setting | values | default |")[2].partition("\n\n")[0]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    assert {row[0]: row[2] for row in rows} == {name: str(setting.default) for name, setting in SETTINGS.items()}


def test_the_specification_names_own_settings() -> None:
    """The sentence that says which settings a gateway shows only where they were set."""
    (sentence,) = [line for line in FORMAT.splitlines() if line.startswith("A gateway shows `")]
    assert set(sentence.split("`")[1::2]) - {"config"} == SHOWN_WHERE_SET


def test_versions_are_not_promised_for_longer_than_their_files() -> None:
    """A promise beyond ``deleted.file.retention.ms`` is refused, whichever of the two is set; both together are taken."""
    day = 86_400_000
    config = TopicConfig.parse({"commit.retention.ms": day})
    for given in ({"commit.retention.ms": day + 1}, {"deleted.file.retention.ms": day - 1}):
        with pytest.raises(
            RequestRefused, match=r"commit\.retention\.ms must not be above deleted\.file\.retention\.ms"
        ):
            config.altered(given)
    raised = config.altered({"commit.retention.ms": 7 * day, "deleted.file.retention.ms": 7 * day})
    assert raised.integer("commit.retention.ms") == 7 * day
    assert TopicConfig.parse({"deleted.file.retention.ms": 0}).integer("commit.retention.ms") == limits.LOG_KEPT_MS_MIN
