"""The contract's queues over the fake log: locks of real time, deliveries, dead letters."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.support.fake_groups import FakeGroups
from tests.support.fake_log import Asked, Problem, answer_json
from tests.support.fake_records import as_json
from tidelog.types.record import Record

Place = tuple[str, int, int]
DEFAULTS: dict[str, Any] = {
    "start": "latest", "lock_ms": 30000, "max_deliveries": 5, "dead_letter_topic": None, "backoff_ms": [],
    "max_in_flight": 2000, "order": "none", "expired": "drop", "filter": None,
}  # fmt: skip


@dataclass
class FakeQueue:
    """``locks``: lease and end of each record in flight."""

    settings: dict[str, Any]
    locks: dict[Place, tuple[str, float]] = field(default_factory=dict)
    deliveries: dict[Place, int] = field(default_factory=dict)
    due: dict[Place, float] = field(default_factory=dict)
    settled: dict[Place, str] = field(default_factory=dict)
    """By which action."""
    dead: list[tuple[Record, str]] = field(default_factory=list)
    settle_calls: list[list[dict[str, Any]]] = field(default_factory=list)
    lease_count: int = 0
    not_begun: set[Place] = field(default_factory=set)
    """Taken, and nobody has said that it is begun."""


class FakeQueues(FakeGroups):
    """``FakeGroups`` and docs/http-api.md section 11. Every queue starts at the earliest record."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, FakeQueue] = {}

    def carry_out(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        names = [unquote(name) for name in asked.path.removeprefix("/v1/").split("/")]
        if names[0] != "queues":
            return super().carry_out(asked)
        body = json.loads(asked.body) if asked.body else {}
        if len(names) == 1:
            return answer_json(200, {"queues": [self._shown(name) for name in sorted(self.queues)]})
        name, _, action = names[1].partition(":")
        if asked.method == "PUT":
            is_new = name not in self.queues
            self.queues.setdefault(name, FakeQueue({})).settings = DEFAULTS | body
            return answer_json(201 if is_new else 200, self._shown(name))
        if name not in self.queues:
            raise Problem(404, "UNKNOWN_QUEUE")
        queue = self.queues[name]
        match asked.method, action:
            case "GET", "":
                return answer_json(200, self._shown(name) | {"partitions": self._partitions(queue)})
            case "DELETE", "":
                del self.queues[name]
                return 204, {}, b""
            case "POST", "receive":
                self._wait(body["max_wait_ms"], lambda: bool(self._free(queue)))
                with self.changed:
                    return answer_json(200, {"records": self._receive(queue, body)})
            case "POST", "settle":
                with self.changed:
                    queue.settle_calls.append(body["settlements"])
                    results = [self._settle(queue, one) for one in body["settlements"]]
                    self.changed.notify_all()
                return answer_json(200, {"results": results})
            case "POST", "redrive":
                if queue.settings["dead_letter_topic"] is None:
                    raise Problem(409, "NO_DEAD_LETTER_TOPIC")
                taken = queue.dead[: body.get("max_records")]
                queue.dead = queue.dead[len(taken) :]
                for record, _ in taken:
                    log = self.topics[body.get("to_topic", record.topic)].records[record.partition]
                    log.append(Record(record.topic, record.partition, len(log), 0, record.key, record.value))
                return answer_json(200, {"redriven": len(taken)})
        raise Problem(404, "NOT_FOUND")

    def _shown(self, name: str) -> dict[str, Any]:
        return {"queue": name, **self.queues[name].settings}

    def _partitions(self, queue: FakeQueue) -> list[dict[str, Any]]:
        shown = []
        for topic in queue.settings["topics"]:
            for partition, log in enumerate(self.topics[topic].records):
                left = [at for at in range(len(log)) if (topic, partition, at) not in queue.settled]
                locked = sum(1 for at in left if self._is_locked(queue, (topic, partition, at)))
                shown.append(
                    {"topic": topic, "partition": partition, "start_offset": left[0] if left else len(log)}
                    | {"in_flight": locked, "delayed": 0, "lag": len(left)}
                )
        return shown

    def _is_locked(self, queue: FakeQueue, place: Place) -> bool:
        return place in queue.locks and queue.locks[place][1] > time.monotonic()

    def _free(self, queue: FakeQueue) -> list[Record]:
        free = []
        for topic in queue.settings["topics"]:
            for log in self.topics[topic].records:
                for record in log:
                    place = (topic, record.partition, record.offset)
                    if place in queue.settled or self._is_locked(queue, place):
                        continue
                    if queue.due.get(place, 0) <= time.monotonic():
                        free.append(record)
        return free

    def _receive(self, queue: FakeQueue, body: dict[str, Any]) -> list[dict[str, Any]]:
        leases: dict[tuple[str, int], str] = {}
        received: list[dict[str, Any]] = []
        for record in self._free(queue):
            place = (record.topic, record.partition, record.offset)
            if queue.deliveries.get(place, 0) >= queue.settings["max_deliveries"]:
                self._end(queue, place, "dead", "max_deliveries")
                continue
            if len(received) == body["max_records"]:
                break
            if place[:2] not in leases:
                queue.lease_count += 1
                leases[place[:2]] = f"lease-{queue.lease_count}"
            if place in queue.not_begun:  # its lock has ended
                queue.not_begun.discard(place)
                queue.deliveries[place] -= 1
            queue.deliveries[place] = queue.deliveries.get(place, 0) + 1
            if len(received) >= body.get("begun_max", body["max_records"]):
                queue.not_begun.add(place)
            lock_ms = body.get("lock_ms", queue.settings["lock_ms"])
            queue.locks[place] = (leases[place[:2]], time.monotonic() + lock_ms / 1000)
            received.append(
                as_json(record)
                | {"topic": record.topic, "delivery_count": queue.deliveries[place], "lease": leases[place[:2]]}
                | {"locked_until_ms": int(time.time() * 1000) + lock_ms}
            )
        return received

    def _settle(self, queue: FakeQueue, one: dict[str, Any]) -> dict[str, Any]:
        topic, partition, action = one["topic"], one["partition"], one["action"]
        offsets = range(one["first_offset"], one["last_offset"] + 1)
        places = [(topic, partition, offset) for offset in offsets]
        shown = {"topic": topic, "partition": partition, "first_offset": offsets[0], "last_offset": offsets[-1]}
        for place in places:
            if not self._is_locked(queue, place) or queue.locks[place][0] != one["lease"]:
                return {**shown, "settled": False, "error_code": "LEASE_EXPIRED"}
        for place in places:
            if action == "renew":
                queue.locks[place] = (one["lease"], time.monotonic() + one["lock_ms"] / 1000)
                if one.get("begun"):
                    queue.not_begun.discard(place)
            elif action == "release":
                del queue.locks[place]
                if not one.get("begun", True):
                    queue.deliveries[place] -= 1
                    queue.not_begun.discard(place)
                    continue
                queue.not_begun.discard(place)
                pauses = queue.settings["backoff_ms"] or [0]
                pause_ms = one.get("delay_ms", pauses[min(queue.deliveries[place], len(pauses)) - 1])
                queue.due[place] = time.monotonic() + pause_ms / 1000
            else:
                self._end(queue, place, action, one.get("reason", "rejected"))
        return {**shown, "settled": True}

    def _end(self, queue: FakeQueue, place: Place, action: str, reason: str) -> None:
        queue.locks.pop(place, None)
        queue.not_begun.discard(place)
        queue.settled[place] = action
        if action != "accept":
            queue.dead.append((self.topics[place[0]].records[place[1]][place[2]], reason))
