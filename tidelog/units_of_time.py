"""Time-outs that other log clients count in another unit: refused where a call would wait a thousandth, or a thousand times.

``poll`` counts milliseconds, as kafka-python's does; confluent-kafka's counts seconds. ``flush`` and ``close`` count seconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_milliseconds(call: Callable[P, T]) -> Callable[P, T]:
    """Around a method whose first argument is ``timeout_ms``. It raises ``TypeError`` for a float without that name."""

    @functools.wraps(call)
    def checked(*arguments: P.args, **named: P.kwargs) -> T:
        if len(arguments) > 1 and type(arguments[1]) is float:
            given = arguments[1]
            raise TypeError(
                f"{call.__name__}({given}): is that in seconds? Write timeout_ms={given * 1000:g} for {given:g} s, "
                f"timeout_ms={given:g} for {given:g} ms"
            )
        return call(*arguments, **named)

    return checked


def in_seconds(call: Callable[P, T]) -> Callable[P, T]:
    """Around a method with ``timeout`` in seconds. It raises ``TypeError`` for ``timeout_ms``, with what to write."""

    @functools.wraps(call)
    def checked(*arguments: P.args, **named: P.kwargs) -> T:
        if "timeout_ms" in named:
            raise TypeError(f"{call.__name__} takes timeout, in seconds, as Kafka's clients do: not timeout_ms")
        return call(*arguments, **named)

    return checked
