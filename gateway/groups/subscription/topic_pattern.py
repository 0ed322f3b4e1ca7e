"""Patterns of topic names, as clients send and the table stores them: in Python's syntax, with bounded cost.

1. A pattern is checked before it is compiled: Python's own parser, which only parses, says whether it is valid. ``re.compile``
   may take a second for a few wide case-insensitive ranges, and its patterns match without a time limit.
2. A repeat inside a repeat costs several times as much time and memory to compile. Beyond ``PATTERN_COST_MAX`` a pattern is
   refused, so that compiling takes at most some 20 ms, in a thread.
3. All names together are matched within ``PATTERN_MS_MAX``, in a thread that lets the others run.

Source: CPython, ``Lib/re/_parser.py``, for the form of what its parser returns.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any, Final

import regex

from gateway.groups.bounds import PATTERN_MS_MAX
from log_format.clock import Clock

PATTERN_COST_MAX: Final = 20_000
"""Maximum cost of a pattern, in its elements; those inside a repeat count ``_REPEAT_COST`` times."""
_REPEAT_COST: Final = 4
_parser: Final[Any] = importlib.import_module("re._parser")


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Return the pattern, to be matched with a time limit. Blocks some milliseconds. Raises ``ValueError`` saying what is
    wrong."""
    try:
        if _cost(_parser.parse(pattern)) > PATTERN_COST_MAX:
            raise ValueError("is too costly: it has repeats inside repeats inside repeats")
        return regex.compile(pattern, cache_pattern=False)
    except (re.error, regex.error, OverflowError) as problem:
        raise ValueError(f"is not a valid regular expression: {problem}") from problem
    except RecursionError as problem:
        raise ValueError("is not a valid regular expression: it is nested too deeply") from problem


def match_names(pattern: str, names: Sequence[str], clock: Clock) -> list[str] | None:
    """Return the names that the pattern matches as a whole; None if it takes too long. Raises as ``compile_pattern``."""
    matcher = compile_pattern(pattern)
    deadline_ms = clock.monotonic_ms() + PATTERN_MS_MAX

    def matches(name: str) -> bool:
        left_ms = max(1, deadline_ms - clock.monotonic_ms())
        return matcher.fullmatch(name, timeout=left_ms / 1000, concurrent=True) is not None

    try:
        return [name for name in names if matches(name)]
    except TimeoutError:
        return None


def _cost(parsed: Any) -> int:
    """Return the cost of a parse tree, or of a part of it. Raises ``ValueError`` if Python's compiler would refuse the
    pattern."""
    if isinstance(parsed, _parser.SubPattern):
        return sum(_cost_of(kind, value) for kind, value in parsed)
    if isinstance(parsed, list | tuple):
        return sum(_cost(part) for part in parsed)
    return 0


def _cost_of(kind: Any, value: Any) -> int:
    if kind in (_parser.ASSERT, _parser.ASSERT_NOT):
        direction, inner = value
        shortest, longest = inner.getwidth()
        if direction < 0 and shortest != longest:
            raise ValueError("is not a valid regular expression: look-behind requires fixed-width pattern")
    return 1 + _cost(value) * (_REPEAT_COST if "REPEAT" in str(kind) else 1)
