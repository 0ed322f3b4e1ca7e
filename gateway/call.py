"""One call of the API, and whether what it asked for stands in the store (docs/http-api.md section 1.7).

1. A commit that a call asked for says ``stands`` when it has ended well. The seams that commit do: ``SharedCommits.decide``,
   ``OpenTable.commit``, ``LiveGroup`` and ``Writer.acknowledged``.
2. From then on the call asks the store for nothing. The seams that ask say ``check_way_back``, which raises each time, not only
   when the store fails: a route that looks again after its commit fails in its first test.
3. ``second_part`` allows it to a call that has one, such as a poll that reads after it has committed. Such a call tells a
   failure of that part inside its answer, or as ``OutcomeUnknown``.
4. ``unasked`` is for changes that the call only meets on its way: a group is claimed, another's transaction is finished.
5. What is raised behind ``stands`` all the same is answered as in doubt, never as a refusal (``gateway.asgi.problems``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Call:
    """What is known of one call. ``stands``: it has changed what it was asked to change."""

    __slots__ = ("has_second_part", "stands", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.stands = False
        self.has_second_part = False


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def begin_call() -> Call:
    """The call that this task serves from now on."""
    call = Call()
    _call.set(call)
    return call


def stands() -> None:
    """What the present call asked for is in the store."""
    call = _call.get()
    if call is not None:
        call.stands = True


def check_way_back() -> None:
    """Raise ``RuntimeError`` when the present call has made its change and has no second part: it is a defect to ask further.

    Work in other tasks is not held to it: it goes on behind the answer.
    """
    call = _call.get()
    if call is None or not call.stands or call.has_second_part:
        return
    if asyncio.current_task() is call.task:
        raise RuntimeError("a call asks the store for something after its change stands")


@contextmanager
def second_part() -> Iterator[None]:
    """What the call does in here may fail although its change stands: it tells so in its answer."""
    call = _call.get()
    if call is None:
        yield
        return
    before, call.has_second_part = call.has_second_part, True
    try:
        yield
    finally:
        call.has_second_part = before


@contextmanager
def unasked() -> Iterator[None]:
    """Changes in here are not what the present call asks for."""
    token = _call.set(None)
    try:
        yield
    finally:
        _call.reset(token)
