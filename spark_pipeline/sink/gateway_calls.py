"""Calls of the HTTP API that may be repeated as often as it takes, at whichever gateway answers.

Every call of the sink is one: to begin a transaction again fences the first try, records carry the producer's sequence, a commit
has one answer for ever. So a lost answer and an error that may have happened are followed by the same call, at the next address.
Source: docs/http-api.md sections 1 and 5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import urllib3

from log_format.clock import Clock
from log_format.errors import TidelogError
from log_format.version import __version__

CALL_MS_MAX: Final = 120_000
"""No try of a call begins later: a rolling restart of all gateways is over by then."""
ANSWER_SECONDS_MAX: Final = 60
"""Of one try: a commit waits for every topic's records."""
CONNECT_SECONDS_MAX: Final = 5
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one answer: a commit's names every partition of its topics, each in some 100 bytes."""
_READ_BYTES: Final = 64 * 1024
_PAUSE_MS_FIRST: Final = 100
_PAUSE_MS_LAST: Final = 2_000


class GatewayRefused(TidelogError):
    """A gateway refused the call, or none could be asked. ``error_code``: the contract's; empty when none answered."""

    def __init__(self, detail: str, error_code: str) -> None:
        super().__init__(detail)
        self.error_code = error_code


class GatewayCalls:
    """One thread at a time. ``urls``: base URLs of gateways, at least one."""

    def __init__(self, urls: Sequence[str], clock: Clock) -> None:
        assert urls
        self._urls = tuple(urls)
        self._clock = clock
        self._next = 0
        self._http = urllib3.PoolManager(
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS_MAX, read=ANSWER_SECONDS_MAX),
            headers={"User-Agent": f"tidelog-spark/{__version__}"},
        )

    def post(
        self, path: str, body: bytes | None = None, content_type: str = "", headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """The answer to ``POST path``. Raises ``GatewayRefused``."""
        sent = {**self._http.headers, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = content_type
        deadline_ms = self._clock.monotonic_ms() + CALL_MS_MAX
        pause_ms = _PAUSE_MS_FIRST
        while True:
            url = self._urls[self._next % len(self._urls)]
            problem, code = "", ""
            try:
                answer = self._http.request("POST", f"{url}{path}", body=body, headers=sent, preload_content=False)
                found = _object(_read(answer))
            except urllib3.exceptions.HTTPError as error:
                problem = str(error)
            else:
                if answer.status < 300:
                    return found
                problem = f"{answer.status} {found.get('detail', '')}"
                code = str(found.get("error_code", ""))
                if not found.get("retryable", answer.status >= 500):
                    raise GatewayRefused(f"{url} refuses: {problem}", code)
            if self._clock.monotonic_ms() >= deadline_ms:
                raise GatewayRefused(f"{url} does not do it: {problem}", code)
            self._next += 1
            self._clock.sleep_ms(pause_ms)
            pause_ms = min(_PAUSE_MS_LAST, pause_ms * 2)

    def post_json(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same with a JSON body."""
        return self.post(path, json.dumps(body).encode(), "application/json")

    def close(self) -> None:
        """Close the connections."""
        self._http.clear()


def _read(answer: urllib3.BaseHTTPResponse) -> bytes:
    """The body, not decompressed: nothing was asked to be compressed. Raises urllib3's ``HTTPError``."""
    parts: list[bytes] = []
    size_bytes = 0
    try:
        while part := answer.read(_READ_BYTES, decode_content=False):
            parts.append(part)
            size_bytes += len(part)
            if size_bytes > ANSWER_BYTES_MAX:
                raise urllib3.exceptions.ProtocolError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    except BaseException:
        answer.close()
        raise
    answer.release_conn()
    return b"".join(parts)


def _object(data: bytes) -> dict[str, Any]:
    """The JSON object of an answer; empty for what is none, such as a proxy's page."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
