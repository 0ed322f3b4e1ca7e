"""Members of a group that poll, process and commit with the next poll, through whichever gateway answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import urllib3

from tests.torture.tortured.group_history import Commit, MemberHistory, Told

Json = dict[str, Any]


class Answer:
    """What a gateway said; status 0: nothing."""

    def __init__(self, status: int, body: Json) -> None:
        self.status = status
        self.body = body
        self.code: str = body.get("error_code", "")

    @property
    def is_refused(self) -> bool:
        """Whether it is a promise that nothing happened."""
        return self.body.get("may_have_happened") is False


def call(http: urllib3.PoolManager, method: str, url: str, body: Json | None = None) -> Answer:
    """One request, not repeated."""
    try:
        answer = http.request(method, url, json=body) if body is not None else http.request(method, url)
        return Answer(answer.status, json.loads(answer.data) if answer.data else {})
    except (urllib3.exceptions.HTTPError, ValueError):
        return Answer(0, {})


class GroupMember(threading.Thread):
    """One consumer; it joins again when it is out, so it may have several histories. ``work_seconds``: what it takes to process
    an answer; a member at work holds what it has, and hears of nothing."""

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        group: str,
        topic: str,
        *,
        session_ms: int,
        work_seconds: float,
        stopping: threading.Event,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.histories: list[MemberHistory] = []
        self.generations: list[int] = []
        self.polls = 0
        self.seen: list[list[tuple[str, int, int, str]]] = []
        """Answer by answer: topic, partition, offset and value of each record."""
        self._urls = list(urls)
        self._path = f"/v1/groups/{group}/poll"
        self._topic = topic
        self._session_ms = session_ms
        self._work_seconds = work_seconds
        self._stopping = stopping
        self._http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=1, read=3))
        self._generation = 0
        self._commit: dict[int, int] = {}

    def run(self) -> None:
        """Until it is told to stop; it does not leave."""
        history: MemberHistory | None = None
        while not self._stopping.is_set():
            history = self._join() if history is None else self._poll(history)
        self._http.clear()

    def _join(self) -> MemberHistory | None:
        started = time.monotonic()
        wish: Json = {"topics": [self._topic], "session_timeout_ms": self._session_ms, "max_records": 20}
        answer = call(self._http, "POST", self._urls[0] + self._path, wish)
        if answer.status != 200:
            self._another()
            return None
        history = MemberHistory(member_id=answer.body["member_id"], session_seconds=self._session_ms / 1000)
        self.histories.append(history)
        self._commit = {}
        self._take(history, answer.body, started)
        return history

    def _poll(self, history: MemberHistory) -> MemberHistory | None:
        offsets = dict(self._commit)
        wish: Json = {"member_id": history.member_id, "generation": self._generation, "max_wait_ms": 300}
        wish["max_records"] = 20
        if offsets:
            wish["commit"] = [
                {"topic": self._topic, "partition": partition, "offset": offset}
                for partition, offset in offsets.items()
            ]
        started = time.monotonic()
        history.sent.append(started)
        answer = call(self._http, "POST", self._urls[0] + self._path, wish)
        ended = time.monotonic()
        if answer.status == 200:
            if offsets:
                history.commits.append(Commit(started=started, ended=ended, offsets=offsets))
            self._take(history, answer.body, started)
        elif answer.code in {"UNKNOWN_MEMBER", "FENCED_MEMBER", "UNKNOWN_GROUP"}:
            history.told.append(Told(started=started, ended=ended, is_out=True))
            return None
        else:
            if offsets and answer.is_refused:
                history.refused.append(offsets)
            elif offsets:
                history.commits.append(Commit(started=started, ended=None, offsets=offsets))
            if answer.code == "STALE_GENERATION":
                self._commit = {}
            else:
                self._another()
        return history

    def _take(self, history: MemberHistory, polled: Json, started: float) -> None:
        now = time.monotonic()
        parts = [part for part in polled["partitions"] if "records" in part]
        held = frozenset(part["partition"] for part in parts)
        history.told.append(Told(started=started, ended=now, partitions=held))
        self._generation = polled["generation"]
        self.generations.append(self._generation)
        self.polls += 1
        self._commit = {}
        for part in parts:
            history.processed += [(now, part["partition"], record["offset"]) for record in part["records"]]
            if part["records"]:
                self._commit[part["partition"]] = part["next_offset"]
        self.seen.append(
            [
                (self._topic, part["partition"], record["offset"], record["value"])
                for part in parts
                for record in part["records"]
            ]
        )
        if held:
            time.sleep(self._work_seconds)

    def _another(self) -> None:
        self._urls.append(self._urls.pop(0))
        time.sleep(0.05)


class Feeder(threading.Thread):
    """Sends records to all partitions in turn, so that there is always something to read."""

    def __init__(self, urls: Sequence[str], topic: str, partition_count: int, stopping: threading.Event) -> None:
        super().__init__(name="feeder", daemon=True)
        self._urls = list(urls)
        self._topic = topic
        self._partition_count = partition_count
        self._stopping = stopping

    def run(self) -> None:
        """Until it is told to stop."""
        with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=1, read=3)) as http:
            sent = 0
            while not self._stopping.wait(0.05):
                partition = sent % self._partition_count
                url = f"{self._urls[0]}/v1/topics/{self._topic}/partitions/{partition}/records"
                if call(http, "POST", url, {"records": [{"value": str(sent)}]}).status != 200:
                    self._urls.append(self._urls.pop(0))
                sent += 1
