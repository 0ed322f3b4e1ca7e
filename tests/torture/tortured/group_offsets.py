"""Offsets without members: a client that commits and resets them, and the table's own log of what was ever committed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

import urllib3

from log_format import layout
from log_format.delta.actions import decode_commit
from log_format.groups.row import TAG_GROUPS, decode_tag
from log_format.store import ObjectStore
from tests.torture.tortured.group_history import Commit, MemberHistory, Row
from tests.torture.tortured.group_members import Json, call

RESET_EVERY = 10


class OffsetsClient(threading.Thread):
    """Commits one offset after another for a group of its own, each only once, by each gateway in turn; now and then a reset.

    They lie far beyond the end of the log, so that none is committed by anything else.
    """

    def __init__(self, group: str, urls: Sequence[str], topic: str, stopping: threading.Event, pace_seconds: float):
        super().__init__(name=group, daemon=True)
        self.group = group
        self.history = MemberHistory(member_id="", session_seconds=0)
        self.resets = 0
        self._urls = list(urls)
        self._topic = topic
        self._stopping = stopping
        self._pace_seconds = pace_seconds
        self._http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=1, read=10))

    def run(self) -> None:
        """Until it is told to stop."""
        for number in range(1, 1_000_000):
            if self._stopping.wait(self._pace_seconds):
                break
            url = f"{self._urls[number % len(self._urls)]}/v1/groups/{self.group}/offsets"
            if number % RESET_EVERY == 0:
                body: Json = {"partitions": [{"topic": self._topic, "partition": 1}], "to": "earliest"}
                self.resets += call(self._http, "POST", f"{url}:reset", body).status == 200
            self._commit(url, 1_000_000_000 + number)
        self._http.clear()

    def _commit(self, url: str, offset: int) -> None:
        started = time.monotonic()
        body = {"offsets": [{"topic": self._topic, "partition": 0, "offset": offset}]}
        answer = call(self._http, "PUT", url, body)
        if answer.is_refused:
            self.history.refused.append({0: offset})
            return
        ended = time.monotonic() if answer.status == 200 else None
        self.history.commits.append(Commit(started=started, ended=ended, offsets={0: offset}))


def committed_offsets(url: str, group: str) -> dict[int, int]:
    """The group's offsets by partition, once everything has come to rest."""
    with urllib3.PoolManager(retries=urllib3.Retry(10, backoff_factor=0.3, status_forcelist=[503]), timeout=60) as http:
        answer = call(http, "GET", f"{url}/v1/groups/{group}/offsets")
    if answer.status != 200:
        raise AssertionError(f"the offsets of {group} can't be read: {answer.status} {answer.body}")
    return {row["partition"]: row["offset"] for row in answer.body["offsets"]}


def ever_committed(store: ObjectStore, group: str) -> Counter[Row]:
    """What the log of the consumers' offsets says was committed for a group, commit by commit, rewrites left out."""
    rows = Counter[Row]()
    for info in list(store.list(layout.table_log_prefix(layout.CONSUMER_OFFSETS_ROOT))):
        if layout.commit_version(info.key) is None:
            continue
        for add in decode_commit(store.get(info.key), info.key).adds:
            if not add.data_change:
                continue
            for changes in decode_tag(str((add.tags or {})[TAG_GROUPS])):
                rows.update(
                    (row.member or "", row.partition, row.offset)
                    for row in changes.offsets
                    if row.group == group and row.offset is not None
                )
    return rows
