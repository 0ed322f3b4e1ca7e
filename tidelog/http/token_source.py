"""Where a client's bearer token comes from, and when another one takes its place.

1. A file is looked at once a second, and read again when it changed. A callable is asked again after ``TOKEN_AGE_MS_MAX``.
2. A new token is used ``TOKEN_SETTLES_MS`` after it was seen: by then every gateway knows it, and the old one still holds.
3. When a gateway refuses the token, the source is read at once. ``renewed`` says whether that brought another one.
4. A token is in no text that this module makes: neither in an error, nor in a log line, nor in a ``repr``.
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
"""What a header can carry; anything else would end the header, or be refused by every gateway."""


class TokenSource:
    """The token of one client. Safe from any thread."""

    def __init__(
        self,
        read: Callable[[], str],
        *,
        what: str,
        version: Callable[[], object] | None = None,
        look_ms: int,
        settles_ms: int = limits.TOKEN_SETTLES_MS,
    ) -> None:
        """``read`` gives the token; ``what`` names the source in errors.

        Every ``look_ms`` the source is read again, unless ``version`` says the same as before.
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
        """The token to send now. Raises ``Unauthenticated`` when there is none yet and the source gives none."""
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
        """Whether there is another token than ``refused``, which a gateway did not take."""
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
        """Take in what the source says by now; while it says nothing the old token stays."""
        try:
            if self._version is None or self._version() != self._seen_version:
                found = self._checked()
                if found == self._used:
                    self._next = None
                elif self._next is None or self._next[0] != found:
                    self._next = (found, now)
        except (Unauthenticated, OSError):
            _log.warning("%s gives no token any more: the last one stays in use", self._what)
        if self._next is not None and (now - self._next[1]) * 1000 >= self._settles_ms:
            self._used, self._next = self._next[0], None

    def _checked(self) -> str:
        try:
            # The version comes first: a change between the two is then seen at the next look.
            version = self._version() if self._version is not None else None
            token = self._read()
        except Exception as error:  # the user's code, whose own words may hold a secret
            raise Unauthenticated(f"{self._what} gives no token: {_said_by(error)}") from error
        if not isinstance(token, str) or not token.strip():
            raise Unauthenticated(f"{self._what} gives no token: it is empty")
        token = token.strip()
        if len(token) > limits.TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
            raise Unauthenticated(f"{self._what} gives no token: it is one word of ASCII, of 8 KiB at most")
        self._seen_version = version
        return token


def from_text(token: str, what: str) -> TokenSource:
    """A token that stays as it is."""
    return TokenSource(lambda: token, what=what, version=lambda: None, look_ms=limits.TOKEN_LOOK_MS)


def from_file(path: str) -> TokenSource:
    """The only line of a file, which may change."""

    file = Path(path)

    def read() -> str:
        with file.open("rb") as opened:
            return opened.read(limits.TOKEN_BYTES_MAX + 2).decode("utf-8")

    return TokenSource(
        read, what=f"the token file {path}", version=partial(file_version, file), look_ms=limits.TOKEN_LOOK_MS
    )


def file_version(file: Path) -> object:
    """Another value when the file was written or replaced. Raises ``OSError``."""
    seen = file.stat()
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino)


def from_callable(give: Callable[[], str]) -> TokenSource:
    """What a callable returns; it is called rarely, but may keep what it returns itself."""
    return TokenSource(give, what="the callable given as token", look_ms=limits.TOKEN_AGE_MS_MAX)


def _said_by(error: Exception) -> str:
    """The operating system's words, which hold a path at most; of other errors the kind alone."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
