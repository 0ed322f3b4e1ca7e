"""The contract's consumer groups over the fake log; the test says which member has which partitions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.support.fake_log import Asked, Problem, answer_json
from tests.support.fake_transactions import FakeTransactions

Place = tuple[str, int]


@dataclass
class FakeMember:
    """``target`` is what it is to have; ``acknowledged`` the generation that it knows."""

    joined: dict[str, Any]
    target: set[Place]
    acknowledged: int
    readable: set[Place] = field(default_factory=set)


@dataclass
class FakeGroup:
    """``events`` is what happened, in order: joins, heartbeats, commits, leaves, as text."""

    generation: int = 0
    members: dict[str, FakeMember] = field(default_factory=dict)
    offsets: dict[Place, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By member id: with what each of its calls is refused."""
    joined_count: int = 0


class FakeGroups(FakeTransactions):
    """``FakeTransactions`` and docs/http-api.md section 7; sessions never end by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, FakeGroup] = {}
        self.heartbeat_ms = 20

    def move(self, group: str, member_id: str, *target: Place) -> None:
        """A new generation, in which this member has these partitions."""
        with self.changed:
            found = self.groups[group]
            found.generation += 1
            found.members[member_id].target = set(target)
            found.members[member_id].readable &= set(target)

    def carry_out(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        names = [unquote(name) for name in asked.path.removeprefix("/v1/").split("/")]
        if names[0] != "groups" or len(names) == 1:
            return super().carry_out(asked)
        body = json.loads(asked.body) if asked.body else {}
        with self.changed:
            group = self.groups.setdefault(names[1], FakeGroup())
            match asked.method, names[2:]:
                case "POST", ["members"]:
                    return self._join(group, body)
                case "POST", ["members", member_id, "heartbeat"]:
                    return self._heartbeat(group, member_id, body["generation"])
                case "DELETE", ["members", member_id]:
                    group.events.append(f"leave {member_id}")
                    del group.members[member_id]
                    return 204, {}, b""
                case "PUT", ["offsets"]:
                    return self._commit_offsets(group, body)
                case "GET", ["offsets"]:
                    found = [
                        {"topic": topic, "partition": partition, "offset": offset, "metadata": None, "committed_at": 1}
                        for (topic, partition), offset in group.offsets.items()
                    ]
                    return answer_json(200, {"offsets": found})
        raise Problem(404, "NOT_FOUND")

    def _join(self, group: FakeGroup, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        member_id = f"m{group.joined_count}"
        group.joined_count += 1
        group.generation += 1
        target = {(name, number) for name in body["topics"] for number in range(self.topics[name].partition_count)}
        group.members[member_id] = FakeMember(body, target, group.generation, set(target))
        group.events.append(f"join {member_id}")
        return answer_json(201, {"member_id": member_id, **self._told(group, member_id)})

    def _heartbeat(self, group: FakeGroup, member_id: str, generation: int) -> tuple[int, dict[str, str], bytes]:
        member = self._member(group, member_id)
        if generation == group.generation and member.acknowledged != generation:
            group.events.append(f"acknowledge {generation}")
            member.acknowledged = generation
            member.readable = set(member.target)
        return answer_json(200, self._told(group, member_id))

    def _commit_offsets(self, group: FakeGroup, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        offsets = {(each["topic"], each["partition"]): each["offset"] for each in body["offsets"]}
        if "member_id" in body:
            member = self._member(group, body["member_id"])
            held = member.readable | (set(offsets) if member.acknowledged != group.generation else set())
            if body["generation"] not in {member.acknowledged, group.generation} or not set(offsets) <= held:
                raise Problem(409, "STALE_GENERATION")
        elif group.members:
            raise Problem(409, "STALE_GENERATION")
        group.offsets |= offsets
        said = " ".join(f"{topic}/{number}@{offset}" for (topic, number), offset in sorted(offsets.items()))
        group.events.append(f"commit {said}")
        return answer_json(200, {"offsets": []})

    def _member(self, group: FakeGroup, member_id: str) -> FakeMember:
        if member_id in group.refuse:
            status, code = group.refuse[member_id]
            raise Problem(status, code)
        if member_id not in group.members:
            raise Problem(404, "UNKNOWN_MEMBER")
        return group.members[member_id]

    def _told(self, group: FakeGroup, member_id: str) -> dict[str, Any]:
        places = [{"topic": topic, "partition": number} for topic, number in sorted(group.members[member_id].readable)]
        return {"generation": group.generation, "assignment": places, "heartbeat_interval_ms": self.heartbeat_ms}
