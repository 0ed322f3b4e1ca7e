"""What the topics of a store are now. Known topics cost a request each; a topic without news costs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from log_format import layout
from log_format.catalogs.topic import DescribedTable, DescribedTopic
from log_format.clock import Clock
from log_format.delta.log import TableLog
from log_format.errors import StoreError, TidelogError
from log_format.store import ObjectStore

LOOKS_AT_ONCE: Final = 16
"""Logs that are looked at in parallel, half of the connections that a store keeps."""
INTERNAL: Final = "__"
"""Topics whose names begin so are Tidelog's own (``__audit``), and in no catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopics:
    """The topics that exist, and the problem of each that could not be read."""

    existing: tuple[DescribedTopic, ...]
    unread: dict[str, str]


class Topics:
    """The topics of one store, whose logs are remembered between two looks."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._logs: dict[str, TableLog[DescribedTopic]] = {}

    def read(self) -> ReadTopics:
        """Look at every topic. Raises ``StoreUnavailable`` if topics can't be listed."""
        names = self._names()
        self._logs = {name: log for name, log in self._logs.items() if name in set(names)}
        return self._look(names)

    def has_new(self) -> bool:
        """Return whether a topic exists that did not when it was last looked at. One listing, and a request for each name
        without a topic. Raises ``StoreUnavailable``."""
        absent = [name for name in self._names() if not self._is_known(name)]
        return bool(self._look(absent).existing)

    def _names(self) -> list[str]:
        return [name for name in self._store.list_directories(layout.TOPICS) if not name.startswith(INTERNAL)]

    def _is_known(self, name: str) -> bool:
        log = self._logs.get(name)
        return log is not None and log.state.topic_id is not None

    def _look(self, names: Sequence[str]) -> ReadTopics:
        for name in names:
            if name not in self._logs:
                self._logs[name] = TableLog(self._store, DescribedTable(name), self._clock)
        with ThreadPoolExecutor(LOOKS_AT_ONCE, thread_name_prefix="catalog-topics") as pool:
            found = list(pool.map(self._refreshed, names))
        unread = {name: one for name, one in zip(names, found, strict=True) if isinstance(one, str)}
        existing = tuple(one for one in found if isinstance(one, DescribedTopic) and one.topic_id is not None)
        return ReadTopics(existing=existing, unread=unread)

    def _refreshed(self, name: str) -> DescribedTopic | str:
        try:
            return self._logs[name].refresh()
        except (TidelogError, StoreError) as problem:
            return str(problem)
