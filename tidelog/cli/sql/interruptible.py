"""Calls of DuckDB that Ctrl-C ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
_AGAIN_S: Final = 0.05


def interruptible(database: duckdb.DuckDBPyConnection, call: Callable[[], T]) -> T:
    """Return the call's result, or raise what it raises. On Ctrl-C the database ends it, and ``KeyboardInterrupt`` is raised.

    DuckDB looks for signals itself, but only between the tasks of the calling thread, which a long scan never leaves. So the call
    runs on a thread of its own.
    """
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(call)
        try:
            return running.result()
        except KeyboardInterrupt:
            while not running.done():
                with suppress(KeyboardInterrupt):
                    database.interrupt()  # lost if the call has not begun yet
                    wait([running], _AGAIN_S)
            raise
