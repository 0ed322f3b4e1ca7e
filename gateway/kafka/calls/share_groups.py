"""ShareGroupHeartbeat and ShareGroupDescribe: members of share groups. A share group is the queue of the same name.

1. The first member that subscribes creates the queue, with default settings. A topic that the queue does not read yet is added
   only for a member with Alter on the group, as over HTTP, because all other members receive its records, too. If the queue has a
   dead letter topic, the member needs Write on it. A heartbeat adds only the topics of its own member. Leaving removes no topic:
   the queue keeps what is settled of it.
2. A consumer group and a share group cannot have the same name: the second one is refused while the first exists.

Source: KIP-932.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.bounds import PARALLEL_LOOKUPS_MAX, SESSION_TIMEOUT_MS_DEFAULT, SUBSCRIBED_TOPICS_MAX
from gateway.groups.calls.groups import heartbeat_interval_ms
from gateway.kafka.administration import Right, administer
from gateway.kafka.call import Answer, KafkaCall, answer_concurrently
from gateway.kafka.calls.classic_groups import client_name
from gateway.kafka.calls.coordinator import check_group, describe_each, group_error, is_name, undescribed_group
from gateway.kafka.calls.group_topics import describable_topics
from gateway.kafka.shares.members import (
    Assignment,
    FencedShareMember,
    ShareGroup,
    ShareMember,
    ShareMemberError,
    TooManyShareMembers,
    UnknownShareMember,
    update_assignment,
)
from log_format.access.acls import Operation
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.queues.row import QueueSettings
from log_format.topic.config import check_topic_name

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
_CREATE_OPERATION: Final[Operation] = "Read"
_SUBSCRIBE_OPERATION: Final[Operation] = "Alter"
LOOKUP_INTERVAL_MS: Final = 2_000
"""Largest age of what is known of a group's topics."""
ASSIGNOR: Final = "simple"
_MEMBER_ERRORS: Final[Mapping[type[ShareMemberError], KafkaError]] = {
    FencedShareMember: KafkaError.fenced_member_epoch,
    TooManyShareMembers: KafkaError.group_max_size_reached,
    UnknownShareMember: KafkaError.unknown_member_id,
}


@answer_concurrently
async def heartbeat(call: KafkaCall, request: Any) -> Answer:
    """Join the group, renew the member's session, or leave."""
    try:
        check_group(call, request.group_id, "Read")
        topics = _check_subscription(call, request)
        if request.member_epoch == LEAVE_EPOCH:
            return _leave(call, request)
        group, member = await _member(call, request, topics)
        await _look_up_topics(call, request.group_id, group, member)
    except (TidelogError, ShareMemberError) as error:
        detail = error.detail if isinstance(error, TidelogError) else None
        code = _MEMBER_ERRORS[type(error)] if isinstance(error, ShareMemberError) else group_error(error)
        return _answer(call, request, 0, None, error_code=code, error_message=detail)
    is_news = update_assignment(group, member)
    assigned = member.assigned if is_news or request.member_epoch == JOIN_EPOCH else None
    return _answer(call, request, member.epoch, assigned)


def _answer(
    call: KafkaCall,
    request: Any,
    epoch: int,
    assigned: Assignment | None,
    *,
    error_code: KafkaError = KafkaError.none,
    error_message: str | None = None,
) -> Answer:
    is_error = error_code is not KafkaError.none
    return call.answer(
        error_code=error_code,
        error_message=error_message,
        member_id=None if is_error else request.member_id,
        member_epoch=epoch,
        heartbeat_interval=0 if is_error else heartbeat_interval_ms(SESSION_TIMEOUT_MS_DEFAULT),
        assignment=None if assigned is None else {"topic_partitions": _partitions(assigned)},
    )


def _check_subscription(call: KafkaCall, request: Any) -> tuple[str, ...] | None:
    """Return the topics that the member subscribes to; None if unchanged. Raise ``RequestRefused``, ``Unauthorized``,
    ``BackOff``."""
    topics = request.subscribed_topic_names
    if not is_name(request.member_id):
        raise RequestRefused("A member's id has 1 to 255 bytes and no control characters.")
    if request.member_epoch < LEAVE_EPOCH or (request.member_epoch == JOIN_EPOCH and not topics):
        raise RequestRefused(
            "A joining member must name the topics that it subscribes to; -1 is the only epoch below 0."
        )
    if topics is None:
        return None
    if len(topics) > SUBSCRIBED_TOPICS_MAX:
        raise RequestRefused(f"A member may name at most {SUBSCRIBED_TOPICS_MAX} topics.")
    for topic in topics:
        check_topic_name(topic)
        call.require("Read", "topic", topic)
    return tuple(sorted(set(topics)))


def _leave(call: KafkaCall, request: Any) -> Answer:
    """Remove the member. Raise ``UnknownShareMember``."""
    members, name = call.shares.members, request.group_id
    group, member = members.member(name, request.member_id, call.owner, call.engine.clock.monotonic_ms())
    members.leave(name, group, member)
    return _answer(call, request, LEAVE_EPOCH, None)


async def _member(call: KafkaCall, request: Any, topics: tuple[str, ...] | None) -> tuple[ShareGroup, ShareMember]:
    """Return the group and the member, which is added if it joins. Raise ``TidelogError`` or ``ShareMemberError``."""
    members, name = call.shares.members, request.group_id
    if request.member_epoch != JOIN_EPOCH:
        now_ms = call.engine.clock.monotonic_ms()
        group, member = members.member(name, request.member_id, call.owner, now_ms)
        members.renew(member, request.member_epoch, now_ms)
        if topics is not None:
            members.subscribe(group, member, topics)
        return group, member
    await _check_kind(call, name)
    member = ShareMember(
        member_id=request.member_id,
        owner=call.owner,
        client_id=client_name(call) or "",
        client_host=f"/{call.session.address}",
        rack_id=request.rack_id,
        topics=topics or (),
    )
    return members.join(name, member, call.engine.clock.monotonic_ms()), member


async def _check_kind(call: KafkaCall, name: str) -> None:
    """Raise ``RequestRefused`` if a consumer group has this name; ``BackOff`` if that is not known."""
    try:
        await call.engine.groups.describe(name)
    except RequestRefused as refusal:
        if refusal.code is ErrorCode.UNKNOWN_GROUP:
            return
        raise
    raise RequestRefused(f"{name!r} is a group of consumers.", code=ErrorCode.INCONSISTENT_ASSIGNOR)


async def _look_up_topics(call: KafkaCall, name: str, group: ShareGroup, member: ShareMember) -> None:
    """Look up the group's topics, and subscribe the queue to the member's topics.

    Raises ``RequestRefused``, ``Unauthorized``, ``BackOff``, ``OutcomeUnknown``.
    """
    now_ms = call.engine.clock.monotonic_ms()
    is_known = all(topic in group.known_assignment for topic in member.topics)
    if is_known and group.looked_up_ms is not None and now_ms - group.looked_up_ms < LOOKUP_INTERVAL_MS:
        return
    topics = group.topics
    known: dict[str, tuple[UUID, int]] = {}
    for start in range(0, len(topics), PARALLEL_LOOKUPS_MAX):
        looks = (
            call.engine.topics.fresh(topic, now_ms - LOOKUP_INTERVAL_MS)
            for topic in topics[start : start + PARALLEL_LOOKUPS_MAX]
        )
        for topic in await asyncio.gather(*looks):
            state = topic.state
            topic_id = call.known_topics.remember_id(state) if state.exists else None
            if topic_id is not None:
                known[topic.name] = (topic_id, state.partition_count)
    read = await _subscribe(call, name, [topic for topic in member.topics if topic in known])
    group.known_assignment, group.looked_up_ms = {topic: of for topic, of in known.items() if topic in read}, now_ms


async def _subscribe(call: KafkaCall, name: str, topics: Sequence[str]) -> Collection[str]:
    """Subscribe the queue to these topics, and return all topics that it then reads. Creating the queue needs Read; adding
    topics to it, which changes what other members receive, needs Alter."""
    queues, operation = call.engine.queues, _SUBSCRIBE_OPERATION
    settings: QueueSettings | None = None
    try:
        settings = await queues.settings(name)
        read = settings.topics
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.UNKNOWN_QUEUE:
            raise
        read, operation = (), _CREATE_OPERATION
    missing = [topic for topic in topics if topic not in read]
    if missing:
        check_dead_letters(call, settings)
        await administer(call, Right(operation, "group", name), lambda: queues.subscribe(name, missing))
    return (*read, *missing)


def check_dead_letters(call: KafkaCall, settings: QueueSettings | None) -> None:
    """Raise ``Unauthorized`` if the caller, who adds a topic to the queue, may not write to its dead letter topic, as over
    HTTP: rejecting a record of the topic writes it there."""
    if settings is not None and settings.dead_letter_topic is not None:
        call.require("Write", "topic", settings.dead_letter_topic)


def _partitions(assigned: Assignment) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, "partitions": range(count)} for topic_id, count in assigned.values()]


@answer_concurrently
async def describe(call: KafkaCall, request: Any) -> Answer:
    """Answer with share groups, their members, and each member's assignment."""
    return call.answer(groups=await describe_each(call, request, request.group_ids, _one))


async def _one(call: KafkaCall, name: str) -> dict[str, Any]:
    try:
        check_group(call, name, "Describe")
        await call.engine.queues.settings(name)
    except TidelogError as error:
        return undescribed_group(name, error)
    group = call.shares.members.group(name, call.engine.clock.monotonic_ms())
    if group is None:
        return undescribed_group(name) | {"group_state": "Empty", "assignor_name": ASSIGNOR}
    return undescribed_group(name) | {
        "group_state": "Stable",
        "group_epoch": group.epoch,
        "assignment_epoch": group.epoch,
        "assignor_name": ASSIGNOR,
        "members": [_described_member(call, one) for one in group.members.values()],
    }


def _described_member(call: KafkaCall, member: ShareMember) -> dict[str, Any]:
    shown: Sequence[str] = describable_topics(call, member.topics)
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": shown,
        "assignment": {
            "topic_partitions": [
                {"topic_id": topic_id, "topic_name": name, "partitions": range(count)}
                for name, (topic_id, count) in member.assigned.items()
                if name in shown
            ]
        },
    }
