"""Patterns of Kafka's clients: taken and refused as by Apache Kafka 4.3, with the same names matched."""

from __future__ import annotations

import warnings

import pytest

from gateway.groups.subscription.re2_pattern import to_python_pattern
from gateway.groups.subscription.topic_pattern import match_names
from log_format.clock import SystemClock

NAMES = ("orders", "orders-2", "Trains", "x.y", "77", "a&b", "_")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-2"]),
        ("[[:digit:]]+", ["77"]),
        (r"[[:alpha:]\-[:digit:]]+", ["orders", "orders-2", "Trains", "77"]),
        ("[[:^digit:]]+", ["orders", "Trains", "x.y", "a&b", "_"]),
        (r"orders\z", ["orders"]),
        (r"\Qx.y\E", ["x.y"]),
        (r"\Qx.y", ["x.y"]),
        (r"\Qxzy\E", []),
        (r"\pN+", ["77"]),
        (r"\p{L}+", ["orders", "Trains"]),
        (r"[\p{Lu}\p{Ll}]+", ["orders", "Trains"]),
        (r"\p{Latin}+", ["orders", "Trains"]),
        (r"\p{Greek}+", []),
        (r"\P{Greek}+", list(NAMES)),
        (r"[^\p{Greek}]+", list(NAMES)),
        (r"\p{^N}+", ["orders", "Trains", "x.y", "a&b", "_"]),
        (r"\x{37}\x37", ["77"]),
        ("[a&&b]+", ["a&b"]),
        ("(?i)trains", ["Trains"]),
        ("(?U)7+", ["77"]),
        ("t(?i)RAINS", []),
        ("T(?i)RAINS", ["Trains"]),
        ("(?i)ORDERS|TRAINS", ["orders", "Trains"]),
        ("77|(?i)ORDERS|TRAINS", ["orders", "Trains", "77"]),
        ("(77|(?i)ORDERS)(-2|X)?|TRAINS", ["orders", "orders-2", "77"]),
        ("(?i)T(?-i)rains|ORDERS(?i)-2", ["Trains"]),
        ("(?i)T(?-i)RAINS", []),
        ("(?i-i)orders", ["orders"]),
        ("(?:(?i)T)rains(?i)", ["Trains"]),
        ("7(?i)+", ["77"]),
        ("(?U)", []),
        ("(?P<a>7)(?<b>7)", ["77"]),
        (r"\_", ["_"]),
        ("7{1,2}?", ["77"]),
        ("(?:7)(7)", ["77"]),
        ("^77$|[]x]", ["77"]),
        ("(a+)+$", []),
    ],
)
def test_what_a_pattern_of_re2_matches(pattern: str, found: list[str]) -> None:
    """Without a word on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert match_names(to_python_pattern(pattern), NAMES, SystemClock()) == found


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?<=a)b", "(?!a)", "(?>a)", "(?#c)a", "(?x)a", "(?P=a)"),
        *(r"(a)\1", r"\C", r"\Za", r"\h", r"\G", r"\u0041", r"\cA", r"\8", "\\"),
        *(r"\p{IsGreek}", r"\p{Nonsense}", r"\pQ", "[[:nonsense:]]", "[", "[b-a]"),
        *("a{1001}", "a**", r"\d++", "a*+", "a{2}{3}"),
        *("a)", "(?i)a)", "(?i-)a", "(?z)a", "a(?i"),
    ],
)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    """As by a broker, in words."""
    with pytest.raises(ValueError, match="is not a valid regular expression"):
        to_python_pattern(pattern)
