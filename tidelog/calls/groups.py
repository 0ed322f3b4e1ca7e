"""The calls about one consumer group, as HTTP requests. Each may be repeated: done twice it is as if done once.

A join is repeated too when its answer is lost: the unused member is out when its session is over. Source: docs/http-api.md
section 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from log_format.errors import ErrorCode
from tidelog.bodies.json_offsets import as_json_offsets
from tidelog.calls.pages import paged
from tidelog.calls.requests import json_request, read_of
from tidelog.deadline import Deadline
from tidelog.errors import RequestRefused, UnknownGroup
from tidelog.http.owners import Owned
from tidelog.http.transport import Reply, Transport, target
from tidelog.types.group import CommittedOffset, Group, GroupLag, GroupMetadata, GroupSummary, NextOffset
from tidelog.types.record import TopicPartition


class Told(msgspec.Struct, frozen=True):
    """What a heartbeat's answer says: the group's generation, and what the member may read now."""

    generation: int
    assignment: tuple[TopicPartition, ...]
    heartbeat_interval_ms: float


class Joined(Told, frozen=True):
    """A new member."""

    member_id: str


class _Offsets(msgspec.Struct, frozen=True):
    offsets: tuple[CommittedOffset, ...]


class GroupCalls:
    """Any thread may use it. Everything raises what ``Transport.call`` raises."""

    def __init__(self, transport: Transport, group: str) -> None:
        self.group = group
        self._transport = transport
        self._about = Owned.of_group(group)

    def join(self, subscription: Mapping[str, Any], deadline: Deadline) -> Joined:
        """A new member, which acknowledges the generation that it is told."""
        return self._call("POST", deadline, "members", body=subscription).decode(Joined)

    def heartbeat(self, member_id: str, generation: int, deadline: Deadline) -> Told:
        """Say that the member lives, and acknowledge ``generation``."""
        body = {"generation": generation}
        reply = self._call("POST", deadline, "members", member_id, "heartbeat", body=body, patient=False)
        return reply.decode(Told)

    def leave(self, member_id: str, deadline: Deadline) -> None:
        """Leave: the member's partitions go to others."""
        self._call("DELETE", deadline, "members", member_id, patient=False)

    def commit(
        self,
        offsets: Mapping[TopicPartition, NextOffset],
        who: GroupMetadata,
        metadata: str | None,
        deadline: Deadline,
        *,
        topic_ids: Mapping[TopicPartition, str] = MappingProxyType({}),
    ) -> None:
        """Commit offsets, all of them or none; those that ``topic_ids`` gives to a deleted topic are left out by the gateway."""
        body: dict[str, Any] = {"offsets": as_json_offsets(offsets, metadata, topic_ids)}
        if who.member_id is not None:
            body |= {"member_id": who.member_id, "generation": who.generation}
        try:
            self._call("PUT", deadline, "offsets", body=body, changes=True)
        except RequestRefused as refusal:
            # Of the gateways of a rolling upgrade one has told ids, and another does not know them yet.
            if not topic_ids or refusal.code != ErrorCode.INVALID_REQUEST:
                raise
            self.commit(offsets, who, metadata, deadline)

    def offsets(self, deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """All offsets that the group has committed; none when there is no such group."""
        try:
            reply = self._call("GET", deadline, "offsets")
        except UnknownGroup:
            return {}
        return _by_place(reply.decode(_Offsets))

    def reset(
        self, where: Mapping[str, Any], to: str | Mapping[str, int], deadline: Deadline, *, preview: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Move the committed offsets; returns all that are committed then. ``preview``: nothing is moved.

        ``where``: ``topics`` or ``partitions``. A ``shift`` is not repeated.
        """
        is_relative = isinstance(to, Mapping) and "shift" in to
        reply = self._call(
            "POST",
            deadline,
            "offsets",
            action="reset",
            body={**where, "to": to, **({"preview": True} if preview else {})},
            changes=not preview,
            repeatable=preview or not is_relative,
        )
        return _by_place(reply.decode(_Offsets))

    def delete_offsets(self, where: Mapping[str, Any], deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """Forget committed offsets; returns those that are left. ``where``: as for ``reset``."""
        reply = self._call("POST", deadline, "offsets", action="delete", body=where, changes=True)
        return _by_place(reply.decode(_Offsets))

    def describe(self, deadline: Deadline) -> Group:
        """The group and its members."""
        return self._call("GET", deadline).decode(Group)

    def lag(self, deadline: Deadline) -> GroupLag:
        """How far it is behind."""
        return self._call("GET", deadline, "lag").decode(GroupLag)

    def delete(self, deadline: Deadline) -> None:
        """Delete the group and its offsets. Not repeated: the second try could meet a new group."""
        self._call("DELETE", deadline, changes=True, repeatable=False)

    def _call(
        self,
        method: str,
        deadline: Deadline,
        *names: str,
        action: str = "",
        body: object = None,
        changes: bool = False,
        repeatable: bool = True,
        patient: bool = True,
    ) -> Reply:
        where = target("groups", self.group, *names, action=action)
        request = json_request(method, where, body, repeatable=repeatable, reads=not changes, about=self._about)
        return self._transport.call(request, deadline, patient=patient)


def list_groups(transport: Transport, deadline: Deadline) -> list[GroupSummary]:
    """All groups, by name. Raises what ``Transport.call`` raises."""
    return list(
        paged("groups", GroupSummary, lambda after: transport.call(read_of(target("groups", after=after)), deadline))
    )


def as_json_places(places: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    """Partitions as the API writes them."""
    return [{"topic": place.topic, "partition": place.partition} for place in sorted(places)]


def _by_place(answer: _Offsets) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(each.topic, each.partition): each for each in answer.offsets}
