"""Members of consumer groups, written against the HTTP contract alone.

A member believes what its answers gave it until its session has ended by its own clock, measured from when it sent the request.
It is told of a newer generation: it stops reading what it lost, perhaps commits for it, and then acknowledges. It may leave,
die, or freeze and come back as a zombie that commits before it looks around.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.simulated.faults import SECOND_MS
from tests.simulation.simulated_groups.ledger import Key, Ledger, Offset
from tests.simulation.simulated_service.coordinated_world import Around
from tests.simulation.simulated_service.network import Lost, Reply

SESSIONS_MS = (3 * SECOND_MS, 6 * SECOND_MS, 10 * SECOND_MS)
_OUT = frozenset({"UNKNOWN_MEMBER", "UNKNOWN_GROUP", "FENCED_MEMBER"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a member does with which probability, each time that it has the choice."""

    freeze: float
    leave: float
    die: float
    polls: bool
    """It uses ``poll``; else it joins, heartbeats, fetches and commits by calls of their own."""
    says_ids: bool = False
    """It says which topic its positions and commits belong to. Where topics are made anew every member does."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """From a join to the end of it."""

    member_id: str
    generation: int
    """The last one that it acknowledged."""
    confirmed_ms: int
    """When the last request that was answered was sent."""
    keys: set[Key] = field(default_factory=set)
    positions: dict[Key, Offset] = field(default_factory=dict)
    """The next record to read."""
    uncommitted: dict[Key, Offset] = field(default_factory=dict)


class Member:
    """One consumer. ``instance_id``: a static one."""

    def __init__(
        self,
        around: Around[Ledger],
        group: str,
        joining: Mapping[str, Any],
        habits: Habits,
        instance_id: str | None = None,
    ) -> None:
        self._around = around
        self._group = group
        self._habits = habits
        self._instance_id = instance_id
        self._timeout_ms = around.rng.choice(SESSIONS_MS)
        self._joining = {**joining, "session_timeout_ms": self._timeout_ms}
        if instance_id is not None:
            self._joining["instance_id"] = instance_id
        self._life: _Life | None = None

    def run(self) -> None:
        """Live, and leave or just stop."""
        for _ in range(self._around.turns):
            self._around.think()
            self._turn()
        if self._life is not None:
            self._leave() if self._around.rng.random() < 0.5 else self._end()

    def read_to(self, ends: Mapping[Key, int]) -> bool:
        """One more step of a member that is to read everything; returns whether it has read and committed all."""
        self._step()
        life = self._life
        if life is None or life.keys != set(ends) or life.uncommitted:
            return False
        return all(key in life.positions and life.positions[key].offset == end for key, end in ends.items())

    def leave(self) -> None:
        """At the very end."""
        self._leave()

    def _turn(self) -> None:
        rng, habits = self._around.rng, self._habits
        chance = rng.random()
        if self._life is None or chance >= habits.freeze + habits.leave + habits.die:
            self._step()
        elif chance < habits.freeze:
            self._around.ledger.told["froze"] += 1
            self._around.scheduler.sleep_ms(rng.randrange(SECOND_MS, 3 * self._timeout_ms))
            if rng.random() < 0.7:
                self._commit()
        elif chance < habits.freeze + habits.leave:
            self._leave()
        else:
            self._around.ledger.told["died"] += 1
            self._end()

    def _step(self) -> None:
        if self._habits.polls:
            self._poll()
            return
        if self._life is None:
            self._join()
            return
        self._beat()
        for _ in range(self._around.rng.randrange(3)):
            self._read()
        if self._around.rng.random() < 0.6:
            self._commit()

    # Membership

    def _join(self) -> None:
        sent_ms = self._around.scheduler.now_ms
        reply = self._call("POST", "members", self._joining)
        if reply is not None and reply.status == 201:
            self._begin(reply.body["member_id"], reply.body["generation"], sent_ms)
            self._may_read(reply.body["assignment"], sent_ms)

    def _begin(self, member_id: str, generation: int, sent_ms: int) -> None:
        self._around.ledger.told["joined"] += 1
        self._life = _Life(member_id=member_id, generation=generation, confirmed_ms=sent_ms)

    def _beat(self) -> None:
        """Heartbeat; when there is a newer generation, let go and acknowledge it."""
        life = self._life
        generation = life.generation if life is not None else 0
        while life is not None and life is self._life:
            sent_ms = self._around.scheduler.now_ms
            reply = self._call("POST", f"members/{life.member_id}/heartbeat", {"generation": generation})
            if reply is None or reply.status != 200:
                return
            acknowledged, generation = generation, reply.body["generation"]
            if acknowledged > life.generation:
                self._around.ledger.told["acknowledged"] += 1
                life.generation = acknowledged
            self._may_read(reply.body["assignment"], sent_ms)
            if generation == acknowledged:
                return
            if self._around.rng.random() < 0.5:
                self._around.think()
            if self._around.rng.random() < 0.1:
                return

    def _may_read(self, assignment: list[dict[str, Any]], sent_ms: int) -> None:
        """Take what is given, stop reading the rest, and perhaps commit for that."""
        life, ledger = self._life, self._around.ledger
        assert life is not None
        life.confirmed_ms = max(life.confirmed_ms, sent_ms)
        if self._is_expired():
            self._stop_reading(life.keys)
            return
        keys = {(one["topic"], one["partition"]) for one in assignment}
        lost = life.keys - keys
        self._stop_reading(lost)
        life.keys = keys
        ledger.takes(self._group, life.member_id, self._instance_id, keys, life.confirmed_ms + self._timeout_ms)
        if lost:
            ledger.told["lost a partition"] += 1
            if not self._habits.polls and self._around.rng.random() < 0.7:
                self._commit()

    def _stop_reading(self, keys: set[Key]) -> None:
        life = self._life
        assert life is not None
        self._around.ledger.lets_go(self._group, life.member_id, keys)
        life.keys = life.keys - keys
        for key in keys:
            life.positions.pop(key, None)

    def _is_expired(self) -> bool:
        life = self._life
        return life is None or self._around.scheduler.now_ms >= life.confirmed_ms + self._timeout_ms

    def _leave(self) -> None:
        life = self._life
        if life is not None:
            self._stop_reading(set(life.keys))
            self._call("DELETE", f"members/{life.member_id}")
            self._around.ledger.told["left"] += 1
            self._life = None

    def _end(self) -> None:
        if self._life is not None:
            self._stop_reading(set(self._life.keys))
            self._life = None

    # Reading and committing

    def _read(self) -> None:
        life, around = self._life, self._around
        if life is None or not life.keys or self._is_expired():
            return
        topic, partition = key = around.rng.choice(sorted(life.keys))
        position = life.positions.get(key) or self._committed(key)
        if position is None:
            return
        offset, topic_id = position
        path = f"/v1/topics/{topic}/partitions/{partition}/records?offset={offset}&max_records=4"
        if self._habits.says_ids and topic_id:
            path += f"&topic_id={topic_id}"
        reply = around.network.call(around.gateway_for(self._group), "GET", path, patience_ms=self._timeout_ms)
        if isinstance(reply, Reply) and reply.status == 200:
            self._process(key, reply.body)

    def _committed(self, key: Key) -> Offset | None:
        sent_ms = self._around.scheduler.now_ms
        reply = self._call("GET", "offsets")
        if reply is None or reply.status != 200:
            return None
        found = {
            (one["topic"], one["partition"]): Offset(one["offset"], one["topic_id"]) for one in reply.body["offsets"]
        }
        life = self._life
        assert life is not None
        self._around.ledger.read(self._group, {at: one.offset for at, one in found.items()}, life.keys, sent_ms)
        return found.get(key, Offset(0, ""))

    def _process(self, key: Key, part: Any) -> None:
        """What an answer has."""
        life = self._life
        end, topic_id = part["next_offset"], part["topic_id"]
        start = part["records"][0]["offset"] if part["records"] else end
        if life is None or key not in life.keys or self._is_expired() or end < start:
            return
        self._around.ledger.processed(self._group, key, topic_id, range(start, end))
        life.positions[key] = Offset(end, topic_id)
        if end > start:
            life.uncommitted[key] = Offset(end, topic_id)

    def _commit(self) -> None:
        life, ledger = self._life, self._around.ledger
        if life is None or not life.uncommitted:
            return
        offsets = dict(life.uncommitted)
        body = {"offsets": self._listed(offsets), "member_id": life.member_id, "generation": life.generation}
        ledger.sends(self._group, life.member_id, offsets)
        reply = self._request("PUT", "offsets", body, self._timeout_ms)
        self._take_commit(life, offsets, reply)
        self._look_out(reply)

    def _take_commit(self, life: _Life, offsets: dict[Key, Offset], reply: Reply | Lost) -> None:
        ledger = self._around.ledger
        if reply is Lost.NO_ANSWER or (isinstance(reply, Reply) and reply.may_have_happened):
            ledger.told["commit in doubt"] += 1
            return
        if isinstance(reply, Reply) and reply.status == 200:
            ledger.acknowledged(self._group, life.member_id, offsets)
            is_done = True
        else:
            code = reply.error_code if isinstance(reply, Reply) else "never sent"
            ledger.refused(self._group, life.member_id, offsets, code)
            is_done = code == "STALE_GENERATION"
        if is_done:
            life.uncommitted = {key: end for key, end in life.uncommitted.items() if offsets.get(key) != end}
            if isinstance(reply, Reply) and reply.status == 409:
                for key in set(offsets) & life.keys:
                    life.positions.pop(key, None)

    # All in one

    def _poll(self) -> None:
        rng, life = self._around.rng, self._life
        body: dict[str, Any] = {"max_records": 4, "max_wait_ms": rng.choice((0, 0, 500, 2 * SECOND_MS))}
        offsets: dict[Key, Offset] = {}
        if life is None:
            body |= self._joining
        else:
            offsets = dict(life.uncommitted) if rng.random() < 0.8 else {}
            body |= {"member_id": life.member_id, "generation": life.generation, "commit": self._listed(offsets)}
            if rng.random() < 0.7:
                body["positions"] = self._listed(life.positions)
            self._around.ledger.sends(self._group, life.member_id, offsets)
        sent_ms = self._around.scheduler.now_ms
        reply = self._request("POST", "poll", body, self._timeout_ms)
        if life is not None and offsets:
            self._take_commit(life, offsets, reply)
        self._look_out(reply)
        if isinstance(reply, Reply) and reply.status == 200 and life is self._life:
            self._take_polled(reply.body, sent_ms)

    def _take_polled(self, body: Any, sent_ms: int) -> None:
        if self._life is None:
            self._begin(body["member_id"], body["generation"], sent_ms)
        life = self._life
        assert life is not None
        life.generation = body["generation"]
        self._may_read(body["partitions"], sent_ms)
        for part in body["partitions"]:
            if "next_offset" in part:
                self._process((part["topic"], part["partition"]), part)

    # Requests

    def _listed(self, offsets: Mapping[Key, Offset]) -> list[dict[str, Any]]:
        return [
            {"topic": key[0], "partition": key[1], "offset": one.offset}
            | ({"topic_id": one.topic_id} if self._habits.says_ids else {})
            for key, one in sorted(offsets.items())
        ]

    def _call(self, method: str, path: str, body: Any = None) -> Reply | None:
        reply = self._request(method, path, body, self._timeout_ms)
        self._look_out(reply)
        return reply if isinstance(reply, Reply) else None

    def _request(self, method: str, path: str, body: Any, patience_ms: int) -> Reply | Lost:
        return self._around.call(self._group, method, f"/v1/groups/{self._group}/{path}", body, patience_ms=patience_ms)

    def _look_out(self, reply: Reply | Lost) -> None:
        """Whether the answer says that the member is out."""
        if isinstance(reply, Reply) and reply.error_code:
            self._around.ledger.told[reply.error_code] += 1
            if reply.error_code in _OUT:
                self._end()
