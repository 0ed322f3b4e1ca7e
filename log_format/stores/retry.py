"""Rules for retrying a request to the store.

1. A request that may have been carried out is retried only if it is idempotent.
2. A request that certainly was not carried out (refused, or never sent) may always be retried.
3. Only a failure that may pass by itself is retried: a missing permission or a full disk is reported immediately.
4. Retries are bounded in number and in time. Full jitter between them keeps the clients of a recovering store from returning all
   at the same moment.
5. The store's own error message is logged here and goes no further.

There is no circuit breaker: the store's callers bound their own queues and refuse work that waits too long.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from log_format.clock import Clock, SystemClock
from log_format.errors import StoreReason, StoreUnavailable
from log_format.limits import STORE_ATTEMPTS_MAX, STORE_PAUSE_FIRST_MS, STORE_PAUSE_LAST_MS

T = TypeVar("T")

_log = logging.getLogger("log_format.stores")


class RequestFailed(Exception):
    """Error: one request to the store failed. It never leaves ``stores``.

    ``detail`` may be shown to anyone; the cause names the store.
    """

    def __init__(
        self, detail: str, *, may_have_happened: bool, may_pass: bool, reason: StoreReason = StoreReason.FAILED
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.may_have_happened = may_have_happened
        self.may_pass = may_pass
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy: ``budget_ms`` after the first request began no new one is sent, but a running one is awaited."""

    budget_ms: int
    clock: Clock = field(default_factory=SystemClock)
    jitter: Callable[[], float] = random.random
    """Function that returns a number of ``[0, 1)``: the share of the longest pause that is taken."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a negative budget."""
        if self.budget_ms < 0:
            raise ValueError(f"the time for retries must not be negative: {self.budget_ms} ms")

    def run(self, key: str, request: Callable[[], T], *, repeatable: bool, changes: bool = True) -> T:
        """Return what ``request`` returns, retrying after ``RequestFailed`` as the module's rules allow.

        Args:
            key: the object, for errors.
            request: sends one request.
            repeatable: whether the request is idempotent.
            changes: whether the request may change the store.

        Raises ``StoreUnavailable``, and any other error of ``request`` without a retry.
        """
        deadline_ms = self.clock.monotonic_ms() + self.budget_ms
        may_have_happened = False
        for attempt in range(STORE_ATTEMPTS_MAX):
            try:
                return request()
            except RequestFailed as error:
                failure = error
            may_have_happened |= failure.may_have_happened and changes
            if not failure.may_pass or (failure.may_have_happened and not repeatable):
                break
            pause_ms = int(min(STORE_PAUSE_FIRST_MS << attempt, STORE_PAUSE_LAST_MS) * self.jitter())
            if attempt + 1 == STORE_ATTEMPTS_MAX or self.clock.monotonic_ms() + pause_ms > deadline_ms:
                break
            self.clock.sleep_ms(pause_ms)
        _log.warning("the store failed at %s: %s: %s", key, failure.detail, failure.__cause__)
        raise StoreUnavailable(
            key,
            failure.detail,
            may_have_happened=may_have_happened,
            may_pass=failure.may_pass,
            reason=failure.reason,
        ) from failure
