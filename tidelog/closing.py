"""Clients that a ``with`` block closes at its end."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self


class Closing:
    """Has ``close``."""

    @abstractmethod
    def close(self) -> object:
        """End it."""

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None, /
    ) -> None:
        """Close."""
        self.close()


class AsyncClosing:
    """Has ``close``, for ``async with``."""

    @abstractmethod
    async def close(self) -> None:
        """End it."""

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None, /
    ) -> None:
        """Close."""
        await self.close()
