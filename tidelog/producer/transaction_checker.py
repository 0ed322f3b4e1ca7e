"""Check-back: ``TransactionChecker`` decides open transactions of silent clients, by a function of the user's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, Literal, Self, Unpack

from log_format.errors import TidelogError
from tidelog import limits
from tidelog.calls.transactions import OpenTransaction, abort, check, commit
from tidelog.closing import Closing
from tidelog.deadline import Deadline
from tidelog.errors import FencedProducer, TransactionNotOpen, UnknownTransaction
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport

Verdict = Literal["commit", "abort", "unknown"]
Check = Callable[[OpenTransaction], Verdict]

WAIT_MS: Final = 20_000
"""Time for which a gateway holds a request open until there are transactions to check."""
PAUSE_S: Final = 1.0
"""Pause after a failed request."""

_logger = logging.getLogger("tidelog.producer")


class TransactionChecker(Closing):
    """Background checker: receives transactions begun with ``check_after_ms`` and left open, and ends each as ``check``
    decides.

    ::

        def check(transaction):
            order = orders.get(transaction.transactional_id)
            return "unknown" if order is None else "commit" if order.is_paid else "abort"

        with TransactionChecker("http://127.0.0.1:8080", transactional_id_prefix="orders-", check=check):
            ...

    After ``unknown``, or an exception of ``check``, the transaction is offered again half a minute later, fifteen times in all,
    and is then aborted. Several checkers may run concurrently: each transaction is offered to one at a time.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        transactional_id_prefix: str,
        check: Check,
        max_records: int = 10,
        timeout_ms: float = limits.API_TIMEOUT_MS,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Create the checker without connecting yet.

        Args:
            bootstrap_servers, connection: as for ``Producer``.
            transactional_id_prefix: only transactions whose id begins with it are checked.
            check: returns the decision for one transaction.
            max_records: transactions requested at a time.
            timeout_ms: limit of one call, besides its waiting.
        """
        self._transport = Transport(
            bootstrap_servers,
            request_timeout_ms=WAIT_MS + limits.REQUEST_TIMEOUT_MS,
            accept_encoding=None,
            **connection,
        )
        self._prefix = transactional_id_prefix
        self._check = check
        self._records_max = max_records
        self._timeout_ms = timeout_ms
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def check_once(self, max_wait_ms: int = 0) -> int:
        """Request transactions once, end those that ``check`` decides, and return the number of ended ones.

        Raises ``GatewayError`` when no gateway answered the request.
        """
        deadline = Deadline(max_wait_ms + self._timeout_ms)
        offered = check(
            self._transport, self._prefix, records_max=self._records_max, wait_ms=max_wait_ms, deadline=deadline
        )
        return sum(self._decided(transaction) for transaction in offered)

    def start(self) -> None:
        """Start checking in a thread."""
        self._thread = threading.Thread(target=self._run, name="tidelog-checker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop checking. The thread may still be in its last request."""
        self._closed.set()
        self._transport.close()
        if self._thread is not None:
            self._thread.join(PAUSE_S)

    def __enter__(self) -> Self:
        """Start checking."""
        self.start()
        return self

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self.check_once(WAIT_MS)
            except TidelogError as error:
                if not self._closed.is_set():
                    _logger.warning("open transactions can't be listed: %s", error.detail)
                self._closed.wait(PAUSE_S)

    def _decided(self, transaction: OpenTransaction) -> bool:
        try:
            verdict = self._check(transaction)
        except BaseException as error:  # the user's code must not end this thread
            if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                raise
            _logger.exception("checking transaction %s raised an exception", transaction.transaction_id)
            return False
        end = {"commit": commit, "abort": abort}.get(verdict)
        if end is None:
            return False
        try:
            end(self._transport, transaction.transaction_id, Deadline(self._timeout_ms))
        except (TransactionNotOpen, FencedProducer, UnknownTransaction) as error:
            _logger.info("transaction %s had already ended: %s", transaction.transaction_id, error.detail)
            return False
        except TidelogError as error:
            _logger.warning("transaction %s is not ended yet: %s", transaction.transaction_id, error.detail)
            return False
        return True
