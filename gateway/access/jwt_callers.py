"""The callers that JWTs name: verified off the event loop, cached by the token's hash for a minute.

1. Keys are fetched when the first JWT comes, when a JWT names an unknown key, and every few minutes in use. For unknown keys at
   most once in ``UNKNOWN_KEY_PAUSE_MS``, however many come; while there are no keys, once in ``NO_KEYS_PAUSE_MS``.
2. While there are no keys, or only very old ones, JWTs get 503, because the gateway can't verify them. Tokens still work.
3. Requests that wait for the issuer's keys at the same time share one fetch.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from gateway.access.caller import Caller, InvalidCredential
from gateway.access.issuer_keys import IssuerUnavailable
from gateway.access.json_web_token import JwtRules, Key, UnknownKey, verify_token
from gateway.problem import overloaded
from log_format.clock import Clock
from log_format.errors import BackOff

REMEMBERED_MS: Final = 60_000
REMEMBERED_MAX: Final = 10_000
"""Most cached tokens, at some 500 bytes each."""
UNKNOWN_KEY_PAUSE_MS: Final = 30_000
NO_KEYS_PAUSE_MS: Final = 2_000
KEYS_RENEWED_MS: Final = 300_000
KEYS_TRUSTED_MS: Final = 86_400_000
"""Largest age of keys: those that the issuer has not confirmed for a day may have been withdrawn."""
VERIFYING_MAX: Final = 1_000
"""Most tokens that wait to be verified, at a tenth of a millisecond each."""

_COMPACT: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_log = logging.getLogger("gateway.access")


class _Remembered(NamedTuple):
    caller: Caller
    until_ms: int
    """Time of day in milliseconds since the epoch."""


class JwtCallers:
    """Verifier of JWTs. ``fetch_keys`` fetches the issuer's keys, in a thread of ``executor``, where tokens are verified, too."""

    def __init__(
        self, rules: JwtRules, *, fetch_keys: Callable[[], Sequence[Key]], executor: Executor, clock: Clock
    ) -> None:
        self._rules = rules
        self._fetch_keys = fetch_keys
        self._executor = executor
        self._clock = clock
        self._keys: Sequence[Key] | None = None
        self._confirmed_ms = 0
        self._asked_ms: int | None = None
        self._asking: asyncio.Task[None] | None = None
        self._remembered: dict[bytes, _Remembered] = {}
        self._verifying = 0

    def find_known(self, credential: bytes) -> Caller | None:
        """Return the caller of a JWT that was verified a short while ago; else None."""
        found = self._remembered.get(hashlib.sha256(credential).digest())
        return None if found is None or self._clock.now_ms() >= found.until_ms else found.caller

    async def verify(self, credential: bytes) -> Caller:
        """Verify a JWT and return its caller. Raise ``InvalidCredential``; ``BackOff`` if that can't be known now."""
        if _COMPACT.fullmatch(credential) is None:
            raise InvalidCredential("it is no JWT")
        await self._have_keys()
        try:
            caller = await self._proved(credential)
        except UnknownKey:
            if not await self._asked_anew(UNKNOWN_KEY_PAUSE_MS):
                raise
            caller = await self._proved(credential)
        self._remember(credential, caller)
        return caller

    async def _proved(self, credential: bytes) -> Caller:
        if self._verifying >= VERIFYING_MAX:
            raise overloaded(f"{VERIFYING_MAX} tokens are waiting to be verified already.")
        self._verifying += 1
        try:
            loop, keys, now_ms = asyncio.get_running_loop(), self._keys or (), self._clock.now_ms()
            return await loop.run_in_executor(
                self._executor, verify_token, credential.decode("ascii"), keys, self._rules, now_ms
            )
        finally:
            self._verifying -= 1

    async def _have_keys(self) -> None:
        """Fetch the keys if necessary. Raise ``BackOff`` if there are none that can be trusted."""
        age_ms = self._clock.monotonic_ms() - self._confirmed_ms
        if self._keys is None or age_ms > KEYS_TRUSTED_MS:
            await self._asked_anew(NO_KEYS_PAUSE_MS)
            if self._keys is None or self._clock.monotonic_ms() - self._confirmed_ms > KEYS_TRUSTED_MS:
                raise BackOff("The keys of the issuer of JWTs can't be fetched.")
        elif age_ms > KEYS_RENEWED_MS:
            self._ask(UNKNOWN_KEY_PAUSE_MS)

    async def _asked_anew(self, pause_ms: int) -> bool:
        """Return whether the keys were fetched, by this call or by one that it waited for."""
        asking = self._ask(pause_ms)
        if asking is None:
            return False
        await asyncio.shield(asking)
        return True

    def _ask(self, pause_ms: int) -> asyncio.Task[None] | None:
        """Return the fetch in progress, or a new one; None during the pause after the last."""
        now_ms = self._clock.monotonic_ms()
        if self._asking is None:
            if self._asked_ms is not None and now_ms - self._asked_ms < pause_ms:
                return None
            self._asked_ms = now_ms
            self._asking = asyncio.create_task(self._asked())
        return self._asking

    async def _asked(self) -> None:
        started_ms = self._clock.monotonic_ms()
        try:
            self._keys = await asyncio.get_running_loop().run_in_executor(self._executor, self._fetch_keys)
            self._confirmed_ms = started_ms
        except IssuerUnavailable as problem:
            _log.warning("the issuer of JWTs does not say which keys it has: %s", problem)
        finally:
            self._asking = None

    def _remember(self, credential: bytes, caller: Caller) -> None:
        assert caller.expires_at_ms is not None
        until_ms = min(self._clock.now_ms() + REMEMBERED_MS, caller.expires_at_ms)
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[hashlib.sha256(credential).digest()] = _Remembered(caller, until_ms)
