"""``TransactionChecker`` for asyncio: check-back of open transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self, Unpack

from tidelog.aio.in_thread import in_thread
from tidelog.calls.transactions import OpenTransaction
from tidelog.http.credentials import ConnectionSettings
from tidelog.producer.transaction_checker import TransactionChecker as BlockingChecker
from tidelog.producer.transaction_checker import Verdict


class TransactionChecker:
    """asyncio version of ``tidelog.TransactionChecker``. ``check`` is a coroutine function, run in the loop that starts the
    checker."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        transactional_id_prefix: str,
        check: Callable[[OpenTransaction], Awaitable[Verdict]],
        max_records: int = 10,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Create the checker, as ``tidelog.TransactionChecker``."""
        self._check = check
        self._loop: asyncio.AbstractEventLoop | None = None
        self._checker = BlockingChecker(
            bootstrap_servers,
            transactional_id_prefix=transactional_id_prefix,
            check=self._ask,
            max_records=max_records,
            **connection,
        )

    async def check_once(self, max_wait_ms: int = 0) -> int:
        """Request and decide transactions once, as ``tidelog.TransactionChecker.check_once``."""
        self._loop = asyncio.get_running_loop()
        return await asyncio.shield(in_thread(lambda: self._checker.check_once(max_wait_ms)))

    async def __aenter__(self) -> Self:
        """Start checking."""
        self._loop = asyncio.get_running_loop()
        self._checker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the checker."""
        await asyncio.shield(in_thread(self._checker.close))

    def _ask(self, transaction: OpenTransaction) -> Verdict:
        assert self._loop is not None

        async def asked() -> Verdict:
            return await self._check(transaction)

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result()
