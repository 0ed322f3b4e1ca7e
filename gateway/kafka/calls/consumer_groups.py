"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups whose partitions the gateway assigns, over HTTP as over Kafka.

Source: KIP-848, KIP-1082 (from version 1 on clients choose their ids).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.assignment.assignors import ASSIGNORS as TIDELOG_ASSIGNORS
from gateway.groups.bounds import PATTERN_CHARACTERS_MAX, SESSION_TIMEOUT_MS_DEFAULT, SUBSCRIBED_TOPICS_MAX
from gateway.groups.calls.epochs import ASSIGNORS, LEAVE_EPOCH, ConsumerHeartbeat
from gateway.groups.calls.groups import GroupDescription, heartbeat_interval_ms
from gateway.groups.subscription.re2_pattern import to_python_pattern
from gateway.kafka.call import Answer, KafkaCall, answer_concurrently
from gateway.kafka.calls.classic_groups import client_name
from gateway.kafka.calls.coordinator import (
    InvalidGroup,
    check_group,
    describe_each,
    group_error,
    is_name,
    milliseconds,
    undescribed_group,
)
from gateway.kafka.calls.group_topics import TopicIds, describable_partitions, describable_topics
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.groups.row import MemberRow, Partitions
from log_format.topic.config import check_topic_name

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
_NAMES: Final = {ours: theirs for theirs, ours in ASSIGNORS.items()} | {
    name: name for name in TIDELOG_ASSIGNORS if name not in ASSIGNORS.values()
}


class InvalidPattern(RequestRefused):
    """The subscription's regular expression is invalid, or too expensive to match."""


@answer_concurrently
async def heartbeat(call: KafkaCall, request: Any) -> Answer:
    """Join the group, renew the member's session, or leave."""
    group, ids = request.group_id, TopicIds(call)
    try:
        check_group(call, group, "Read")
        beat = await _parse_heartbeat(call, request, ids)
        beaten = await _heartbeat(call, group, beat)
        assigned = None if beaten.assigned is None else {"topic_partitions": await ids.by_id(beaten.assigned)}
    except TidelogError as error:
        code = KafkaError.invalid_regular_expression if isinstance(error, InvalidPattern) else group_error(error)
        return call.answer(
            error_code=code, error_message=error.detail, member_id=None, member_epoch=0, heartbeat_interval=0
        )
    return call.answer(
        error_code=KafkaError.none,
        error_message=None,
        member_id=beat.member_id,
        member_epoch=beaten.epoch,
        heartbeat_interval=heartbeat_interval_ms(SESSION_TIMEOUT_MS_DEFAULT),
        assignment=assigned,
    )


async def _heartbeat(call: KafkaCall, group: str, beat: ConsumerHeartbeat) -> Any:
    try:
        return await call.engine.groups.epochs.heartbeat(group, beat)
    except RequestRefused as refusal:
        if refusal.code is ErrorCode.INVALID_REQUEST and beat.pattern:
            raise InvalidPattern(refusal.detail) from refusal
        raise


async def _parse_heartbeat(call: KafkaCall, request: Any, ids: TopicIds) -> ConsumerHeartbeat:
    """Check the request and return its heartbeat. Raise ``RequestRefused``, ``Unauthorized``, ``BackOff``."""
    group, member_id = request.group_id, request.member_id
    if not member_id and call.version == 0 and request.member_epoch == 0:
        member_id = await call.engine.groups.member_ids.issue(group, call.owner)
    instance_id = request.instance_id
    topics, pattern = request.subscribed_topic_names, getattr(request, "subscribed_topic_regex", None)
    if not all(map(is_name, (member_id, *(() if instance_id is None else (instance_id,))))):
        raise RequestRefused("Member and instance ids have 1 to 255 bytes and no control characters.")
    if request.member_epoch == 0 and topics is None and pattern is None:
        raise RequestRefused("A joining member must name the topics that it subscribes to.")
    if (topics and len(topics) > SUBSCRIBED_TOPICS_MAX) or (pattern and len(pattern) > PATTERN_CHARACTERS_MAX):
        raise RequestRefused(
            f"A member may name at most {SUBSCRIBED_TOPICS_MAX} topics, and a pattern of {PATTERN_CHARACTERS_MAX} characters."
        )
    for topic in topics or ():
        check_topic_name(topic)
        call.require("Read", "topic", topic)
    rebalance_ms = milliseconds(request.rebalance_timeout)
    owned = request.topic_partitions
    return ConsumerHeartbeat(
        member_id=member_id,
        epoch=max(request.member_epoch, LEAVE_EPOCH - 1),
        instance_id=instance_id,
        client_id=client_name(call),
        rebalance_timeout_ms=rebalance_ms if rebalance_ms > 0 else None,
        topics=None if topics is None else tuple(sorted(set(topics))),
        pattern=_python_pattern(pattern) if pattern else pattern,
        assignor=request.server_assignor or None,
        owned=None if owned is None else await _owned(call, group, member_id, owned, ids),
        reader=call.reader,
    )


def _python_pattern(pattern: str) -> str:
    try:
        return to_python_pattern(pattern)
    except ValueError as problem:
        raise InvalidPattern(f"The subscribed topics' pattern {problem}.") from problem


async def _owned(call: KafkaCall, group: str, member_id: str, owned: Iterable[Any], ids: TopicIds) -> Partitions:
    """Return the owned partitions by topic name. Topics that the member was never assigned, and deleted ones, are left out:
    the member cannot read the former, and no member owns partitions of the latter."""
    names = await ids.names(call.engine.groups.topics_of_member(group, member_id))
    found = {names.get(one.topic_id): tuple(sorted(set(one.partitions))) for one in owned}
    return {name: numbers for name, numbers in found.items() if name is not None}


@answer_concurrently
async def describe(call: KafkaCall, request: Any) -> Answer:
    """Answer with groups and their members, each with its current and target assignment, of topics that the caller may
    describe."""
    return call.answer(groups=await describe_each(call, request, request.group_ids, _one))


async def _one(call: KafkaCall, name: str) -> dict[str, Any]:
    try:
        check_group(call, name, "Describe")
        found = await call.engine.groups.describe(name)
        if found.row is not None and found.row.is_classic and found.row.members:
            raise InvalidGroup(f"Group {name!r} is of the classic protocol.")
        return await _consumer_group(call, name, found)
    except TidelogError as error:
        return undescribed_group(name, error)


async def _consumer_group(call: KafkaCall, name: str, found: GroupDescription) -> dict[str, Any]:
    ids, row = TopicIds(call), found.row
    generation = 0 if row is None else row.generation
    return undescribed_group(name) | {
        "group_state": found.state,
        "group_epoch": generation,
        "assignment_epoch": generation,
        "assignor_name": _NAMES.get((row and row.assignor) or "sticky", "uniform"),
        "members": [await _member(call, ids, member, readable) for member, readable in found.members],
    }


async def _member(call: KafkaCall, ids: TopicIds, member: MemberRow, readable: Partitions) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": None,
        "member_epoch": member.acknowledged,
        "client_id": member.client_id or "",
        "client_host": "" if member.classic is None else member.classic.client_host,
        "subscribed_topic_names": describable_topics(call, member.topics),
        "subscribed_topic_regex": member.pattern,
        "assignment": {"topic_partitions": await ids.by_id_and_name(describable_partitions(call, readable))},
        "target_assignment": {
            "topic_partitions": await ids.by_id_and_name(describable_partitions(call, member.target))
        },
        "member_type": CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    }
