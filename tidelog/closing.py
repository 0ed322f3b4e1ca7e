"""Base classes of clients that a ``with`` block closes at its end."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self


class Closing:
    """Object with ``close``, for ``with``."""

    @abstractmethod
    def close(self) -> object:
        """Close this object."""

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None, /
    ) -> None:
        """Close."""
        self.close()


class AsyncClosing:
    """Object with an asynchronous ``close``, for ``async with``."""

    @abstractmethod
    async def close(self) -> None:
        """Close this object."""

    async def __aenter__(self) -> Self:
        """Return this object."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None, /
    ) -> None:
        """Close."""
        await self.close()
