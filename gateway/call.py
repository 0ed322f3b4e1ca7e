"""One call of the API, and whether its change stands in the store (docs/http-api.md section 1.7).

1. A commit that a call asked for says ``stands`` once it has succeeded. It is said by ``SharedCommits.decide``,
   ``OpenTable.commit``, ``LiveGroup`` and ``Writer.acknowledged``.
2. From then on the call asks the store for nothing. The parts that ask the store say ``check_way_back`` first. It raises whether
   or not the store fails, so a route that looks again after its commit fails in its first test.
3. ``second_part`` allows it to a call with a second part, such as a poll that commits and then reads. The call reports a failure
   of that part inside its answer, or as ``OutcomeUnknown``.
4. ``unasked`` is for changes on the way that the call did not ask for: claiming a group, finishing another's transaction.
5. An error that is raised after ``stands`` all the same is answered as in doubt, never as a refusal (``gateway.asgi.problems``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Call:
    """What is known of one call. ``sender``: the connection that it came by. ``stands``: its change is in the store.
    ``missing_count``: its looks at names of topics that are not there; ``listed``: the names that are there, once these are many
    (``gateway.engine.registry``)."""

    __slots__ = ("has_second_part", "listed", "missing_count", "sender", "stands", "task")

    def __init__(self, sender: Hashable) -> None:
        self.sender = sender
        self.task: asyncio.Task[object] | None = asyncio.current_task()
        self.stands = False
        self.has_second_part = False
        self.missing_count = 0
        self.listed: asyncio.Task[frozenset[str]] | None = None

    def end(self) -> None:
        """It is answered. The task keeps the call by its context: a call that kept its task would wait for the collector."""
        self.task = None


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def begin_call(sender: Hashable = None) -> Call:
    """The call that this task serves from now on. ``sender``: see ``Call``."""
    call = Call(sender)
    _call.set(call)
    return call


def present_call() -> Call | None:
    """The one that this task serves."""
    return _call.get()


def stands() -> None:
    """What the present call asked for is in the store."""
    call = _call.get()
    if call is not None:
        call.stands = True


def check_way_back() -> None:
    """Raise ``RuntimeError`` where the present call's change stands and it has no second part: asking the store is a defect then.

    Work in other tasks is exempt: it goes on after the answer.
    """
    call = _call.get()
    if call is None or not call.stands or call.has_second_part:
        return
    if call.task is not None and asyncio.current_task() is call.task:
        raise RuntimeError("a call asks the store for something after its change stands")


@contextmanager
def second_part() -> Iterator[None]:
    """In here the call may fail although its change stands: it says so in its answer."""
    call = _call.get()
    if call is None:
        yield
        return
    before, call.has_second_part = call.has_second_part, True
    try:
        yield
    finally:
        call.has_second_part = before


class unasked:  # noqa: N801 - a context manager; a generator would take three times as long, and each flush has some
    """The present call did not ask for the changes made in here."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _call.set(None)

    def __exit__(self, *_: object) -> None:
        _call.reset(self._token)
