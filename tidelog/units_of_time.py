"""Checks of timeouts that other log clients count in another unit, which would wait a thousandth of the time or a thousand
times as long.

``poll`` counts milliseconds, as kafka-python's does; confluent-kafka's counts seconds. ``flush`` and ``close`` count seconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_milliseconds(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap a method whose first argument is ``timeout_ms``: it raises ``TypeError`` for a float passed without that name."""

    @functools.wraps(call)
    def checked(*arguments: P.args, **named: P.kwargs) -> T:
        if len(arguments) > 1 and type(arguments[1]) is float:
            given = arguments[1]
            raise TypeError(
                f"{call.__name__}({given}): the timeout is in milliseconds. Write timeout_ms={given * 1000:g} for {given:g} s, "
                f"timeout_ms={given:g} for {given:g} ms"
            )
        return call(*arguments, **named)

    return checked


def in_seconds(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap a method with ``timeout`` in seconds: it raises ``TypeError`` for ``timeout_ms``, and says what to write."""

    @functools.wraps(call)
    def checked(*arguments: P.args, **named: P.kwargs) -> T:
        if "timeout_ms" in named:
            raise TypeError(f"{call.__name__} takes timeout in seconds, as in Kafka's clients, not timeout_ms")
        return call(*arguments, **named)

    return checked
