"""A store in memory that kills the process that writes to it."""

from __future__ import annotations

from tests.support.maintenance_bench import NotedStore


class Broken(Exception):
    """The process is gone."""


class KilledStore(NotedStore):
    """Kills the process at the first write after ``puts_left`` of them."""

    puts_left: int | None = None

    def put(self, key: str, data: bytes) -> None:
        self._count()
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._count()
        super().put_if_absent(key, data)

    def _count(self) -> None:
        if self.puts_left is not None:
            if not self.puts_left:
                raise Broken
            self.puts_left -= 1
