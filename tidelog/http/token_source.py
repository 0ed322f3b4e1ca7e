"""Source of a client's bearer token, and its rotation.

1. A file is checked once a second, and read again when it changed. A callable is called again after ``TOKEN_AGE_MS_MAX``.
2. A new token is used ``TOKEN_SETTLES_MS`` after it was seen: by then every gateway knows it, and the old one is still valid.
3. When a gateway refuses the token, the source is read immediately. ``renewed`` returns whether that gave another token.
4. No text that this module creates contains a token: no error, no log line, no ``repr``.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tidelog import limits
from tidelog.errors import Unauthenticated

_log = logging.getLogger("tidelog.transport")

_TOKEN: Final = re.compile(r"[!-~]+")
"""Characters that a header can carry; any other would end the header, or be refused by every gateway."""


class TokenSource:
    """Source of one client's token. Thread-safe."""

    def __init__(
        self,
        read: Callable[[], str],
        *,
        what: str,
        version: Callable[[], object] | None = None,
        look_ms: int,
        settles_ms: int = limits.TOKEN_SETTLES_MS,
    ) -> None:
        """Create the source.

        Args:
            read: returns the token.
            what: name of the source in errors.
            version: returns a value that changes with the token; the source is only read again when it differs.
            look_ms: interval of the checks.
            settles_ms: delay before a new token is used.
        """
        self._read = read
        self._what = what
        self._version = version
        self._look_ms = look_ms
        self._settles_ms = settles_ms
        self._lock = threading.Lock()
        self._used: str | None = None
        self._next: tuple[str, float] | None = None
        self._seen_version: object = None
        self._look_at_s = 0.0

    def current(self) -> str:
        """Return the token to send now. Raises ``Unauthenticated`` when the source has never given one."""
        now = time.monotonic()
        used = self._used
        if used is not None and now < self._look_at_s:
            return used
        with self._lock:
            if self._used is None:
                self._used = self._checked()
                self._look_at_s = now + self._look_ms / 1000
            elif now >= self._look_at_s:
                self._look_at_s = now + self._look_ms / 1000
                self._look(now)
            return self._used

    def renewed(self, refused: str) -> bool:
        """Return whether there is another token than ``refused``, which a gateway did not accept."""
        with self._lock:
            if self._used != refused:
                return True
            try:
                found = self._checked()
            except Unauthenticated as error:
                _log.warning("%s", error.detail)
                return False
            self._used, self._next = found, None
            return found != refused

    def _look(self, now: float) -> None:
        """Check the source for a new token; on errors the old token stays in use."""
        try:
            if self._version is None or self._version() != self._seen_version:
                found = self._checked()
                if found == self._used:
                    self._next = None
                elif self._next is None or self._next[0] != found:
                    self._next = (found, now)
        except (Unauthenticated, OSError):
            _log.warning("%s has no valid token any more: the last one stays in use", self._what)
        if self._next is not None and (now - self._next[1]) * 1000 >= self._settles_ms:
            self._used, self._next = self._next[0], None

    def _checked(self) -> str:
        try:
            # Read the version first: a change between the two is then detected by the next check.
            version = self._version() if self._version is not None else None
            token = self._read()
        except Exception as error:  # the user's code, whose message may contain a secret
            raise Unauthenticated(f"{self._what} can't be read: {_said_by(error)}") from error
        if not isinstance(token, str) or not token.strip():
            raise Unauthenticated(f"{self._what} has no token: it is empty")
        token = token.strip()
        if len(token) > limits.TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
            raise Unauthenticated(f"{self._what} has no valid token: a token is one word of ASCII, of at most 8 KiB")
        self._seen_version = version
        return token


def from_text(token: str, what: str) -> TokenSource:
    """Return a source with a constant token."""
    return TokenSource(lambda: token, what=what, version=lambda: None, look_ms=limits.TOKEN_LOOK_MS)


def from_file(path: str) -> TokenSource:
    """Return a source that reads a file with the token as its only line, which may change."""

    file = Path(path)

    def read() -> str:
        with file.open("rb") as opened:
            return opened.read(limits.TOKEN_BYTES_MAX + 2).decode("utf-8")

    return TokenSource(
        read, what=f"the token file {path}", version=partial(file_version, file), look_ms=limits.TOKEN_LOOK_MS
    )


def file_version(file: Path) -> object:
    """Return a value that changes when the file is written or replaced. Raises ``OSError``."""
    seen = file.stat()
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino)


def from_callable(give: Callable[[], str]) -> TokenSource:
    """Return a source that calls ``give``. It is called rarely, and may cache its result itself."""
    return TokenSource(give, what="the callable given as token", look_ms=limits.TOKEN_AGE_MS_MAX)


def _said_by(error: Exception) -> str:
    """Return the operating system's message, which contains a path at most; for other errors only the type's name."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
