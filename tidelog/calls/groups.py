"""Calls about one consumer group. Each may be retried unless it says otherwise, since it is idempotent.

A join is retried, too, when its answer is lost: the unused member is removed when its session expires. Source: docs/http-api.md
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
from tidelog.calls.requests import json_request, read_request
from tidelog.deadline import Deadline
from tidelog.errors import RequestRefused, UnknownGroup
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Reply, Transport, target
from tidelog.types.group import CommittedOffset, Group, GroupLag, GroupMetadata, GroupSummary, NextOffset
from tidelog.types.record import TopicPartition


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    """Answer to a heartbeat: the group's generation, and the partitions that the member may read now."""

    generation: int
    assignment: tuple[TopicPartition, ...]
    heartbeat_interval_ms: float


class JoinAnswer(HeartbeatAnswer, frozen=True):
    """Answer to a join."""

    member_id: str


class _Offsets(msgspec.Struct, frozen=True):
    offsets: tuple[CommittedOffset, ...]


class GroupCalls:
    """Calls about one group. Thread-safe. All of them raise what ``Transport.call`` raises."""

    def __init__(self, transport: Transport, group: str) -> None:
        self.group = group
        self._transport = transport
        self._routing_key = RoutingKey.of_group(group)

    def join(self, subscription: Mapping[str, Any], deadline: Deadline) -> JoinAnswer:
        """Join as a new member, which thereby acknowledges the returned generation."""
        return self._call("POST", deadline, "members", body=subscription).decode(JoinAnswer)

    def heartbeat(self, member_id: str, generation: int, deadline: Deadline) -> HeartbeatAnswer:
        """Keep the member alive, and acknowledge ``generation``."""
        body = {"generation": generation}
        reply = self._call("POST", deadline, "members", member_id, "heartbeat", body=body, patient=False)
        return reply.decode(HeartbeatAnswer)

    def leave(self, member_id: str, deadline: Deadline) -> None:
        """Leave the group: the member's partitions are reassigned."""
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
        """Commit offsets, all or none. The gateway ignores those whose topic, by ``topic_ids``, was deleted."""
        body: dict[str, Any] = {"offsets": as_json_offsets(offsets, metadata, topic_ids)}
        if who.member_id is not None:
            body |= {"member_id": who.member_id, "generation": who.generation}
        try:
            self._call("PUT", deadline, "offsets", body=body, changes=True)
        except RequestRefused as refusal:
            # During a rolling upgrade one gateway reports topic ids, and another does not know them yet.
            if not topic_ids or refusal.code != ErrorCode.INVALID_REQUEST:
                raise
            self.commit(offsets, who, metadata, deadline)

    def offsets(self, deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """Return all offsets that the group has committed; empty if there is no such group."""
        try:
            reply = self._call("GET", deadline, "offsets")
        except UnknownGroup:
            return {}
        return _by_place(reply.decode(_Offsets))

    def reset(
        self, where: Mapping[str, Any], to: str | Mapping[str, int], deadline: Deadline, *, preview: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Move the committed offsets, and return all that are committed then. ``preview``: move nothing.

        ``where``: ``topics`` or ``partitions``. A ``shift`` is not retried.
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
        """Delete committed offsets, and return the remaining ones. ``where``: as for ``reset``."""
        reply = self._call("POST", deadline, "offsets", action="delete", body=where, changes=True)
        return _by_place(reply.decode(_Offsets))

    def describe(self, deadline: Deadline) -> Group:
        """Return the group and its members."""
        return self._call("GET", deadline, include="activity").decode(Group)

    def lag(self, deadline: Deadline) -> GroupLag:
        """Return the group's lag."""
        return self._call("GET", deadline, "lag", include="unread").decode(GroupLag)

    def delete(self, deadline: Deadline) -> None:
        """Delete the group and its offsets. Not retried: a retry could delete a new group of the same name."""
        self._call("DELETE", deadline, changes=True, repeatable=False)

    def _call(
        self,
        method: str,
        deadline: Deadline,
        *names: str,
        action: str = "",
        include: str | None = None,
        body: object = None,
        changes: bool = False,
        repeatable: bool = True,
        patient: bool = True,
    ) -> Reply:
        where = target("groups", self.group, *names, action=action, include=include)
        request = json_request(
            method, where, body, repeatable=repeatable, reads=not changes, routing_key=self._routing_key
        )
        return self._transport.call(request, deadline, patient=patient)


def list_groups(transport: Transport, deadline: Deadline) -> list[GroupSummary]:
    """Return all groups, sorted by name. Raises what ``Transport.call`` raises."""
    return list(
        paged(
            "groups", GroupSummary, lambda after: transport.call(read_request(target("groups", after=after)), deadline)
        )
    )


def as_json_places(places: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    """Return the partitions in the API's JSON form."""
    return [{"topic": place.topic, "partition": place.partition} for place in sorted(places)]


def _by_place(answer: _Offsets) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(each.topic, each.partition): each for each in answer.offsets}
