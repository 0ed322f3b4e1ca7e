"""Producers in threads that note every answer, and the proof that a log holds what they were told."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import urllib3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request and its answer; status 0: none came. Times are monotonic seconds."""

    partition: int
    values: tuple[str, ...]
    began: float
    ended: float
    status: int
    answer: dict[str, Any]
    retry_after: str | None
    never_sent: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether it is a promise that nothing happened."""
        return self.never_sent or (self.status != 0 and self.answer.get("may_have_happened") is False)


@dataclass(slots=True)
class Senders:
    """Producers in threads of their own. ``until`` ends a producer after an answer."""

    urls: Sequence[str]
    topic: str
    partition_count: int
    count: int
    until: Callable[[Sent], bool] = lambda _sent: False
    after_each: Callable[[int, Sent], None] = lambda _name, _sent: None
    sent: list[Sent] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _sending: threading.Event = field(default_factory=threading.Event)
    _under_way: threading.Semaphore = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._sending.set()
        self._under_way = threading.Semaphore(self.count)
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in range(self.count)]
        for thread in self._threads:
            thread.start()

    def pause(self) -> None:
        """Return when every request has its answer and no new one is sent; until ``resume``."""
        self._sending.clear()
        for _ in range(self.count):
            self._under_way.acquire()

    def resume(self) -> None:
        """Send on."""
        if not self._sending.is_set():
            self._sending.set()
            self._under_way.release(self.count)

    def stop(self) -> list[Sent]:
        """Let each end what it sends; everything that was sent."""
        self._stopping.set()
        self.resume()
        return self.join()

    def join(self) -> list[Sent]:
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise self.failures[0]
        return self.sent

    def acknowledged_since(self, moment: float) -> int:
        return sum(sent.status == 200 and sent.began >= moment for sent in list(self.sent))

    def _run(self, name: int) -> None:
        try:
            with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=5, read=100)) as http:
                for number in range(1_000_000):
                    if self._stopping.is_set():
                        return
                    self._sending.wait()
                    with self._under_way:
                        sent = self._send(http, name, number)
                    self.sent.append(sent)
                    self.after_each(name, sent)
                    if self.until(sent):
                        return
                    if sent.status != 200:
                        time.sleep(0.1)
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits
            self.failures.append(error)

    def _send(self, http: urllib3.PoolManager, name: int, number: int) -> Sent:
        partition = (name + number) % self.partition_count
        values = tuple(f"{name}-{number:06d}-{index}" for index in range(3))
        url = f"{self.urls[name % len(self.urls)]}/v1/topics/{self.topic}/partitions/{partition}/records"
        body = json.dumps({"records": [{"value": value} for value in values]})
        began = time.monotonic()
        status, answer, retry_after, never_sent = 0, {}, None, False
        try:
            got = http.request("POST", url, body=body, headers={"Content-Type": "application/json"})
            status, answer, retry_after = got.status, got.json(), got.headers.get("retry-after")
        except urllib3.exceptions.NewConnectionError:
            never_sent = True
        except urllib3.exceptions.HTTPError:
            pass
        return Sent(
            partition=partition,
            values=values,
            began=began,
            ended=time.monotonic(),
            status=status,
            answer=answer,
            retry_after=retry_after,
            never_sent=never_sent,
        )


def check_log(logs: Sequence[Sequence[tuple[int, str]]], sent: Iterable[Sent]) -> None:
    """G1, G2, G3, G8 for ``logs[partition]`` = [(offset, value)].

    A request of unknown outcome may be done late, behind what its sender was acknowledged since: a frozen gateway has it still.
    """
    sent = list(sent)
    for log in logs:
        assert [offset for offset, _ in log] == list(range(len(log)))
    found = Counter(value for log in logs for _, value in log)
    assert not found or max(found.values()) == 1
    for one in sent:
        if one.status == 200:
            (place,) = one.answer["partitions"]
            assert (place["partition"], place["count"]) == (one.partition, len(one.values))
            stored = logs[one.partition][place["base_offset"] : place["last_offset"] + 1]
            assert tuple(value for _, value in stored) == one.values
    assert found.keys() <= {value for one in sent for value in one.values}
    assert not found.keys() & {value for one in sent if one.is_refused for value in one.values}
    acknowledged = {value for one in sent if one.status == 200 for value in one.values}
    for log in logs:
        for name in {value.partition("-")[0] for _, value in log}:
            highest = ""
            for value in (value for _, value in log if value.startswith(f"{name}-")):
                assert value > highest or value not in acknowledged
                highest = max(highest, value)
