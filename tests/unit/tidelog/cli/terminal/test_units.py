"""Settings with units: what people write, what gateways get, and what is shown."""

from __future__ import annotations

import pytest

from tidelog.cli.terminal.units import duration_ms, duration_text, in_words, setting_value, size_text


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "1h30m", "5400000"),
        ("flush.ms", "250ms", "250"),
        ("flush.ms", "2S", "2000"),
        ("retention.bytes", "1GiB", "1073741824"),
        ("retention.bytes", "1gib", "1073741824"),
        ("flush.bytes", "8MB", "8000000"),
        ("max.message.bytes", "512KiB", "524288"),
        # What has no unit is the gateway's to judge.
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "5", "5"),
        ("retention.ms", "a week", "a week"),
        ("cleanup.policy", "compact", "compact"),
        ("compression.type", "lz4", "lz4"),
        ("owners", "2d", "2d"),
    ],
)
def test_a_value_with_a_unit_becomes_the_number(name: str, text: str, value: str) -> None:
    """Of milliseconds or bytes, by the setting's name; nothing else changes."""
    assert setting_value(name, text) == value


@pytest.mark.parametrize(("name", "text"), [("retention.ms", "7w"), ("retention.bytes", "1d"), ("flush.ms", "1h5x")])
def test_an_unknown_unit_is_named_with_those_that_there_are(name: str, text: str) -> None:
    """A typing error never becomes a setting."""
    with pytest.raises(ValueError, match=r"is not a unit; the units are "):
        setting_value(name, text)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("retention.ms", 604_800_000, "604800000 (7d)"),
        ("retention.ms", 5_400_000, "5400000 (1h30m)"),
        ("retention.ms", -1, "-1"),
        ("flush.ms", 250, "250"),
        ("flush.ms", 1_250, "1250 (1s250ms)"),
        ("flush.bytes", 8 << 20, "8388608 (8MiB)"),
        ("retention.bytes", 1_000_000_000, "1000000000 (about 953.67MiB)"),
        ("owners", 2, "2"),
        ("cleanup.policy", "delete", "delete"),
    ],
)
def test_values_are_shown_in_both_ways(name: str, value: int | str, shown: str) -> None:
    """The number that programs use, and what people read."""
    assert in_words(name, value) == shown


def test_what_is_shown_can_be_typed() -> None:
    """The words behind a number lead back to it, where they are exact."""
    for name, value in [("retention.ms", 90_061_001), ("drain.ms", 240_000), ("flush.bytes", 3 << 30)]:
        words = in_words(name, value).partition("(")[2].rstrip(")")
        assert setting_value(name, words) == str(value)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (59_900, "59.9s"),
        (59_999, "1m"),
        (842_000, "14m2s"),
        (3_599_900, "1h"),
        (7_500_000, "2h5m"),
        (200_000_000, "2d8h"),
    ],
)
def test_durations_are_short(ms: int, text: str) -> None:
    """The two largest units, as they can be typed."""
    assert duration_text(ms) == text
    typed = duration_ms(text)
    assert typed is not None
    assert abs(typed - ms) <= ms / 20


def test_sizes_are_short() -> None:
    """In steps of 1,024, as they can be typed."""
    assert [size_text(each) for each in (0, 80, 1536, 8 << 20)] == ["0B", "80B", "1.5KiB", "8MiB"]
    assert setting_value("flush.bytes", size_text(3 << 19)) == str(3 << 19)
