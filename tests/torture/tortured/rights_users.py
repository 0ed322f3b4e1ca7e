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
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from tests.torture.tortured.rights_asker import Asker, chosen
from tests.torture.tortured.rights_history import STOPPED, Asked, Followed, RightsHistory
from tests.torture.tortured.rights_operator import User
from tests.torture.tortured.rights_work import GroupWork, KafkaWork, TransactionWork

WAIT_MS: Final = 3_000
STREAM_SILENCE_SECONDS: Final = 40
"""A gateway sends a ping each 15 seconds."""


class Asking:
    """One user's requests. Belongs to one thread. ``kafka``: the gateways' listeners."""

    def __init__(self, asker: Asker, kafka: Sequence[str]) -> None:
        self._asker = asker
        groups, transactions = GroupWork(asker), TransactionWork(asker)
        self._deeds: list[Callable[[], None]] = [
            *[self._produce] * 3,
            *[self._fetch] * 2,
            self._wait,
            self._whoami,
            *[groups.poll] * 3,
            groups.commit,
            transactions.run,
            KafkaWork(asker, kafka).produce,
        ]

    def run(self, stopping: threading.Event, pace_seconds: float) -> None:
        """One after another until stopped."""
        while not stopping.wait(self._asker.rng.uniform(0, 2 * pace_seconds)):
            self._asker.rng.choice(self._deeds)()

    def _produce(self) -> None:
        topic, value = self._topic(), f"{self._asker.user.name}.{self._asker.next_number()}"
        told = self._asker.ask("POST", _records(topic), {"records": [{"value": value}]})
        place = None
        if told.answer.status == 200:
            place = (topic, 0, int(told.answer.body["partitions"][0]["base_offset"]))
        self._asker.note(told, "produce", ("Write", "topic", topic), value=value, place=place, topic=topic)

    def _fetch(self) -> None:
        topic = self._topic()
        told = self._asker.ask("GET", f"{_records(topic)}?offset=earliest&max_records=3")
        self._asker.note(told, "fetch", ("Read", "topic", topic), topic=topic)

    def _wait(self) -> None:
        topic = self._topic()
        told = self._asker.ask("GET", f"{_records(topic)}?offset=latest&max_wait_ms={WAIT_MS}")
        self._asker.note(told, "wait", ("Read", "topic", topic), waits=True, topic=topic)

    def _whoami(self) -> None:
        self._asker.note(self._asker.ask("GET", "/v1/whoami"), "whoami")

    def _topic(self) -> str:
        return self._asker.rng.choice(topics_of(self._asker.user))


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
            self._follow(self._rng.choice(topics_of(self._user)), self._rng.randrange(len(self._urls)))

    def _follow(self, topic: str, gateway: int) -> None:
        secret, right = chosen(self._user, self._rng), self._user.rights["Read", "topic", topic]
        began = time.monotonic()
        status, reason = 0, ""
        address = urlsplit(self._urls[gateway])
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=STREAM_SILENCE_SECONDS)
        try:
            connection.connect()
            self._socket = connection.sock
            headers = {"Authorization": f"Bearer {secret.text}", "Accept": "text/event-stream"}
            connection.request("GET", f"{_records(topic)}?offset=latest", headers=headers)
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
        common: dict[str, object] = {"user": self._user.name, "gateway": gateway, "secret": secret.holds}
        common |= {"began": began, "ended": ended, "topic": topic}
        if status == 200:
            self._history.followed.append(Followed(**common, right=right, reason=reason))  # type: ignore[arg-type]
        elif reason != STOPPED:
            asked = Asked(**common, rights=(right,), what="stream", status=status)  # type: ignore[arg-type]
            self._history.asked.append(asked)


def topics_of(user: User) -> list[str]:
    """Those that it may read at times."""
    return [name for operation, kind, name in user.rights if (operation, kind) == ("Read", "topic")]


def _records(topic: str) -> str:
    return f"/v1/topics/{topic}/partitions/0/records"


def _reason(answer: http.client.HTTPResponse) -> str:
    """Why the stream ended, as its last event says; empty: it broke off."""
    is_end = False
    for line in answer:
        if line.startswith(b"event:"):
            is_end = line.split(b":", 1)[1].strip() == b"end"
        elif is_end and line.startswith(b"data:"):
            return line.split(b'"reason":"')[1].split(b'"')[0].decode()
    return ""
