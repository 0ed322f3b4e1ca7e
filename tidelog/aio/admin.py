"""Topics, their settings and offsets, consumer groups, and the cluster from asyncio: ``Admin``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tidelog import limits
from tidelog.admin import Admin as BlockingAdmin
from tidelog.aio.in_thread import in_thread

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _awaited(
    method: Callable[Concatenate[BlockingAdmin, _P], _T],
) -> Callable[Concatenate[Admin, _P], Coroutine[Any, Any, _T]]:
    """The same call in a thread, which makes it to its end when the task that awaits it is cancelled."""

    @wraps(method)
    async def call(self: Admin, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        return await asyncio.shield(in_thread(partial(method, self._admin, *arguments, **named)))

    return call


class Admin:
    """As ``tidelog.Admin``.

    Cancelling a call does not undo its change: the change may have happened, or the thread still makes it.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        timeout_ms: float = limits.API_TIMEOUT_MS,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        ca_file: str | None = None,
    ) -> None:
        """As ``tidelog.Admin``."""
        self._admin = BlockingAdmin(
            bootstrap_servers, timeout_ms=timeout_ms, request_timeout_ms=request_timeout_ms, ca_file=ca_file
        )

    create_topic = _awaited(BlockingAdmin.create_topic)
    list_topics = _awaited(BlockingAdmin.list_topics)
    describe_topic = _awaited(BlockingAdmin.describe_topic)
    alter_topic = _awaited(BlockingAdmin.alter_topic)
    delete_topic = _awaited(BlockingAdmin.delete_topic)
    delete_records = _awaited(BlockingAdmin.delete_records)
    offsets = _awaited(BlockingAdmin.offsets)
    list_groups = _awaited(BlockingAdmin.list_groups)
    describe_group = _awaited(BlockingAdmin.describe_group)
    delete_group = _awaited(BlockingAdmin.delete_group)
    group_offsets = _awaited(BlockingAdmin.group_offsets)
    commit_group_offsets = _awaited(BlockingAdmin.commit_group_offsets)
    reset_group = _awaited(BlockingAdmin.reset_group)
    group_lag = _awaited(BlockingAdmin.group_lag)
    cluster = _awaited(BlockingAdmin.cluster)
    close = _awaited(BlockingAdmin.close)

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()
