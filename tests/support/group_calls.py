"""Calls about one consumer group as a client makes them. Each test has a group of its own."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.http_api import Api

Json = dict[str, Any]
Key = tuple[str, int]


def keys(assignment: list[Json]) -> set[Key]:
    """Topics and partitions of a list that names each once."""
    found = {(one["topic"], one["partition"]) for one in assignment}
    assert len(found) == len(assignment), assignment
    return found


class GroupCalls:
    """One group. What ends in ``_answer`` is given as it came; the others check that the call was taken."""

    def __init__(self, api: Api, name: str | None = None) -> None:
        self.http: httpx.Client = api.http
        self.name = name if name is not None else f"group-{secrets.token_hex(6)}"
        self.url = f"/v1/groups/{quote(self.name, safe='')}"
        self._joined: list[str] = []

    def join_answer(self, *topics: str, **members: Any) -> httpx.Response:
        """To topics, or to whatever ``members`` says."""
        body = ({"topics": list(topics)} if topics else {}) | members
        return self.http.post(f"{self.url}/members", json=body)

    def join(self, *topics: str, **members: Any) -> Json:
        """A new member."""
        answer = self.join_answer(*topics, **members)
        assert answer.status_code == 201, answer.text
        joined: Json = answer.json()
        self._joined.append(joined["member_id"])
        return joined

    def heartbeat_answer(self, member: Json, generation: int | None = None) -> httpx.Response:
        """Acknowledge a generation; the one that ``member`` has unless told otherwise."""
        body = {"generation": member["generation"] if generation is None else generation}
        return self.http.post(f"{self.url}/members/{member['member_id']}/heartbeat", json=body)

    def heartbeat(self, member: Json) -> Json:
        """Send the generation that ``member`` has; it has what was answered from now on."""
        answer = self.heartbeat_answer(member)
        assert answer.status_code == 200, answer.text
        member |= answer.json()
        return member

    def settle(self, *members: Json) -> None:
        """Heartbeats in turn until every member has acknowledged the newest generation and knows what it gets by it."""
        for _ in range(3):
            for member in members:
                self.heartbeat(member)
        assert len({member["generation"] for member in members}) == 1, members
        assert self.describe()["state"] == "Stable"

    def leave_answer(self, member: Json) -> httpx.Response:
        """Take a member out."""
        return self.http.delete(f"{self.url}/members/{member['member_id']}")

    def commit_answer(self, *offsets: tuple[str, int, int], member: Json | None = None, **more: Any) -> httpx.Response:
        """Offsets as topic, partition, offset; by a member under the generation that it has."""
        body: Json = {"offsets": [{"topic": one[0], "partition": one[1], "offset": one[2]} for one in offsets]}
        if member is not None:
            body |= {"member_id": member["member_id"], "generation": member["generation"]}
        return self.http.put(f"{self.url}/offsets", json=body | more)

    def commit(self, *offsets: tuple[str, int, int], member: Json | None = None) -> dict[Key, int]:
        """All offsets of the group then."""
        answer = self.commit_answer(*offsets, member=member)
        assert answer.status_code == 200, answer.text
        return self._offsets(answer)

    def committed(self) -> dict[Key, int]:
        """All offsets of the group."""
        return self._offsets(self.http.get(f"{self.url}/offsets"))

    def reset_answer(self, to: Any, **where: Any) -> httpx.Response:
        """Move the group's offsets."""
        return self.http.post(f"{self.url}/offsets:reset", json={"to": to} | where)

    def reset(self, to: Any, **where: Any) -> dict[Key, int]:
        """All offsets of the group then."""
        return self._offsets(self.reset_answer(to, **where))

    def describe(self, include: str = "") -> Json:
        """The group."""
        answer = self.http.get(self.url + (f"?include={include}" if include else ""))
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        assert found["group"] == self.name
        return found

    def readable(self) -> dict[str, set[Key]]:
        """What each member may read, by its id, as the group is described; no partition is there twice."""
        found = {one["member_id"]: keys(one["assignment"]) for one in self.describe()["members"]}
        assert sum(map(len, found.values())) == len(set().union(*found.values())), found
        return found

    def lag(self, include: str = "") -> Json:
        """How far behind the group is."""
        answer = self.http.get(f"{self.url}/lag" + (f"?include={include}" if include else ""))
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def poll_answer(self, *, member: Json | None = None, **body: Any) -> httpx.Response:
        """One poll; as a member, which acknowledges the generation that it has."""
        if member is not None:
            body = {"member_id": member["member_id"], "generation": member["generation"]} | body
        return self.http.post(f"{self.url}/poll", json=body)

    def poll(self, *, member: Json | None = None, **body: Any) -> Json:
        """What it gave; ``member`` has the generation that was answered from now on."""
        answer = self.poll_answer(member=member, **body)
        assert answer.status_code == 200, answer.text
        polled: Json = answer.json()
        assert polled.keys() == {"member_id", "generation", "rebalanced", "partitions"}
        if member is None:
            self._joined.append(polled["member_id"])
        else:
            assert polled["member_id"] == member["member_id"]
            member["generation"] = polled["generation"]
        return polled

    def end(self) -> None:
        """Take out the members that are left, so that nothing goes on behind the next test."""
        for member_id in self._joined:
            self.leave_answer({"member_id": member_id})

    def _offsets(self, answer: httpx.Response) -> dict[Key, int]:
        assert answer.status_code == 200, answer.text
        rows = answer.json()["offsets"]
        assert all(
            row.keys() == {"topic", "partition", "offset", "metadata", "committed_at", "topic_id"} for row in rows
        )
        order = [(row["topic"], row["partition"]) for row in rows]
        assert order == sorted(set(order))
        return {(row["topic"], row["partition"]): row["offset"] for row in rows}
