"""What users do in a run, each in two threads: requests one after another at any gateway, and event streams.

They mostly show the newest secret of their token, and at times an older one: what had to end is tried.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import threading
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from tests.torture.tortured.rights_calls import Calls
from tests.torture.tortured.rights_history import STOPPED, Asked, Followed, RightsHistory
from tests.torture.tortured.rights_operator import Secret, User

WAIT_MS: Final = 3_000
STREAM_SILENCE_SECONDS: Final = 40
"""A gateway sends a ping each 15 seconds."""


class Asking:
    """One user's requests. Belongs to one thread."""

    def __init__(self, user: User, urls: Sequence[str], history: RightsHistory, rng: random.Random) -> None:
        self._user = user
        self._history = history
        self._rng = rng
        self._calls = Calls(urls)
        self._next_value = 0

    def run(self, stopping: threading.Event, pace_seconds: float) -> None:
        """One after another until stopped."""
        while not stopping.wait(self._rng.uniform(0, 2 * pace_seconds)):
            what = self._rng.choice(("produce", "produce", "produce", "fetch", "fetch", "wait", "whoami"))
            operation = "Write" if what == "produce" else "Read"
            topic = self._rng.choice(sorted({name for _, name in self._user.rights}))
            self._ask(what, (operation, topic), self._rng.randrange(len(self._calls.urls)))

    def _ask(self, what: str, right: tuple[str, str], gateway: int) -> None:
        secret, value, body = chosen(self._user, self._rng), None, None
        method, path = "GET", f"/v1/topics/{right[1]}/partitions/0/records"
        if what == "produce":
            self._next_value += 1
            value = f"{self._user.name}.{self._next_value}"
            method, body = "POST", {"records": [{"value": value}]}
        elif what == "whoami":
            path = "/v1/whoami"
        else:
            path += f"?offset=latest&max_wait_ms={WAIT_MS}" if what == "wait" else "?offset=earliest&max_records=3"
        answer = self._calls.ask(gateway, secret.text, method, path, body)
        place = None
        if what == "produce" and answer.status == 200:
            place = (right[1], 0, int(answer.body["partitions"][0]["base_offset"]))
        self._history.asked.append(
            Asked(
                user=self._user.name,
                what=what,
                gateway=gateway,
                secret=secret.holds,
                right=None if what == "whoami" else self._user.rights[right],
                began=answer.began,
                ended=answer.ended,
                status=answer.status,
                code=answer.code,
                waits=what == "wait",
                value=value,
                place=place,
            )
        )


class Following:
    """One user's event streams, one after another."""

    def __init__(self, user: User, urls: Sequence[str], history: RightsHistory, rng: random.Random) -> None:
        self._user = user
        self._urls = urls
        self._history = history
        self._rng = rng
        self._stopping = threading.Event()
        self._socket: socket.socket | None = None

    def stop(self) -> None:
        """End the stream that is open, and begin none any more."""
        self._stopping.set()
        if (open_socket := self._socket) is not None:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        """Until stopped."""
        while not self._stopping.wait(self._rng.uniform(0, 0.6)):
            right = self._rng.choice([one for one in self._user.rights if one[0] == "Read"])
            self._follow(right, self._rng.randrange(len(self._urls)))

    def _follow(self, right: tuple[str, str], gateway: int) -> None:
        secret, timeline, began = chosen(self._user, self._rng), self._user.rights[right], time.monotonic()
        status, reason = 0, ""
        address = urlsplit(self._urls[gateway])
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=STREAM_SILENCE_SECONDS)
        try:
            connection.connect()
            self._socket = connection.sock
            headers = {"Authorization": f"Bearer {secret.text}", "Accept": "text/event-stream"}
            connection.request("GET", f"/v1/topics/{right[1]}/partitions/0/records?offset=latest", headers=headers)
            with connection.getresponse() as answer:
                status = answer.status
                if status == 200:
                    reason = _reason(answer)
                else:
                    answer.read()
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            self._socket = None
            connection.close()
        ended = time.monotonic()
        reason = STOPPED if self._stopping.is_set() and not reason else reason
        common = {"user": self._user.name, "gateway": gateway, "secret": secret.holds, "right": timeline}
        if status == 200:
            self._history.followed.append(Followed(**common, began=began, ended=ended, reason=reason))  # type: ignore[arg-type]
        elif reason != STOPPED:
            asked = Asked(**common, what="stream", began=began, ended=ended, status=status)  # type: ignore[arg-type]
            self._history.asked.append(asked)


def chosen(user: User, rng: random.Random) -> Secret:
    """Mostly the newest, else one of those before it."""
    secrets = user.secrets
    return secrets[-1] if rng.random() < 0.75 else rng.choice(secrets)


def _reason(answer: http.client.HTTPResponse) -> str:
    """Why the stream ended, as its last event says; empty: it broke off."""
    is_end = False
    for line in answer:
        if line.startswith(b"event:"):
            is_end = line.split(b":", 1)[1].strip() == b"end"
        elif is_end and line.startswith(b"data:"):
            return line.split(b'"reason":"')[1].split(b'"')[0].decode()
    return ""
