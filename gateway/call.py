"""One call of the API, and whether its change is committed in the store (docs/http-api.md section 1.7).

1. A commit that a call asked for calls ``mark_committed`` once it has succeeded. ``SharedCommits.decide``, ``OpenTable.commit``,
   ``LiveGroup`` and ``TopicAppends.await_acknowledgement`` do so.
2. From then on the call asks the store for nothing. The parts that ask the store call ``check_may_ask_store`` first. It raises
   whether or not the store fails, so a route that looks again after its commit fails in its first test.
3. ``second_part`` allows it to a call with a second part, such as a poll that commits and then reads. The call reports a
   failure of that part inside its answer, or as ``OutcomeUnknown``.
4. ``detached_from_call`` is for changes that the call makes without being asked for them: claiming a group, finishing another's
   transaction.
5. An error that is raised after ``mark_committed`` all the same is answered as in doubt, never as a refusal
   (``gateway.asgi.problems``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Call:
    """State of one call.

    ``sender``: connection that it came by. ``is_committed``: whether its change is committed. ``missing_count``: number of its
    looks at names of missing topics; ``listed``: all names of topics, once these looks are many (``gateway.engine.open_topics``).
    """

    __slots__ = ("has_second_part", "is_committed", "listed", "missing_count", "sender", "task")

    def __init__(self, sender: Hashable) -> None:
        self.sender = sender
        self.task: asyncio.Task[object] | None = asyncio.current_task()
        self.is_committed = False
        self.has_second_part = False
        self.missing_count = 0
        self.listed: asyncio.Task[frozenset[str]] | None = None

    def end(self) -> None:
        """End an answered call: it lets go of its task, whose context refers to the call, so that no cycle waits for the garbage
        collector."""
        self.task = None


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def begin_call(sender: Hashable = None) -> Call:
    """Begin the call that this task serves from now on, and return it. ``sender``: see ``Call``."""
    call = Call(sender)
    _call.set(call)
    return call


def current_call() -> Call | None:
    """Return the call that this task serves, None if it serves none."""
    return _call.get()


def mark_committed() -> None:
    """Mark the present call's change as committed."""
    call = _call.get()
    if call is not None:
        call.is_committed = True


def check_may_ask_store() -> None:
    """Raise ``RuntimeError`` if the present call's change is committed and it has no second part: then asking the store is a
    defect.

    Work in other tasks is exempt: it goes on after the answer.
    """
    call = _call.get()
    if call is None or not call.is_committed or call.has_second_part:
        return
    if call.task is not None and asyncio.current_task() is call.task:
        raise RuntimeError("a call asks the store for something after its change is committed")


@contextmanager
def second_part() -> Iterator[None]:
    """Allow the call to fail while the context lasts although its change is committed: it says so in its answer."""
    call = _call.get()
    if call is None:
        yield
        return
    before, call.has_second_part = call.has_second_part, True
    try:
        yield
    finally:
        call.has_second_part = before


class detached_from_call:  # noqa: N801 - a context manager; a generator would take three times as long, and each flush has some
    """Context in which changes are made that the present call did not ask for."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _call.set(None)

    def __exit__(self, *_: object) -> None:
        _call.reset(self._token)
