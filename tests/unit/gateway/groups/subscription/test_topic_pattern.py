"""Topics' patterns: Python's syntax, the whole name, and never more than a moment to match."""

from __future__ import annotations

import pytest

from gateway.groups.subscription.topic_pattern import compile_pattern, match_names
from log_format.clock import SystemClock
from tests.support.cpu_time import is_cheap

NAMES = ("flights", "flights-2", "Trains", "x.y")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("flights", ["flights"]),
        ("flights.*", ["flights", "flights-2"]),
        ("(?i)trains", ["Trains"]),
        (r"(?:[a-z]\.){1,2}y|f(?=l).+s", ["flights", "x.y"]),
        ("(?i)" + "[!-\uffff]" * 190, []),
    ],
)
def test_what_a_pattern_matches(pattern: str, found: list[str]) -> None:
    """The whole name must match, by Python's rules."""
    assert match_names(pattern, NAMES, SystemClock()) == found


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(", "is not a valid regular expression"),
        (r"\p{L}", "is not a valid regular expression: bad escape"),  # another syntax
        ("a{2,1}", "is not a valid regular expression"),
        ("(" * 450 + "a" + ")" * 450, "nested too deeply"),
        ("(" * 30 + "a" + "){2}" * 30, "is too costly"),
        ("(?:" * 100 + "a" + ")*" * 100, "is too costly"),
    ],
)
def test_what_is_refused_before_it_is_compiled(pattern: str, what: str) -> None:
    """Repeats inside repeats would take all memory there is to compile; they, and what is no pattern, are refused in no time."""

    def refuse() -> None:
        with pytest.raises(ValueError, match=what):
            compile_pattern(pattern)

    assert is_cheap(refuse, 1)


def test_a_pattern_that_takes_for_ever_matches_nothing() -> None:
    """Matching has a limit of time, over all names together."""
    assert match_names(
        "(?:a?){200}a{200}b|(a|b|ab)*(?=c)c*(bc|[ab])*d" + "(.?)" * 60, ["ab" * 120] * 2_000, SystemClock()
    ) in (
        None,
        [],
    )
