"""ListGroups, DescribeGroups, DeleteGroups: groups of every kind, including those used over HTTP.

1. A gateway lists the groups and queues that it coordinates: clients ask every broker and merge the answers.
2. A queue is listed as a share group (``share_groups``), and is deleted by its name if no consumer group has the same name.
3. DescribeGroups also describes groups whose partitions the gateway assigns, as if their members used the classic protocol.

Source: KIP-518, KIP-848 (types), KIP-1043 (an unknown group is an error from version 6 of DescribeGroups on).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.calls.groups import GroupDescription
from gateway.groups.classic.consumer_protocol import PROTOCOL_TYPE, assignment_of, subscription_of
from gateway.groups.classic.group import ClassicGroup
from gateway.kafka.administration import Right, administer
from gateway.kafka.call import Answer, KafkaCall, answer_concurrently
from gateway.kafka.calls.coordinator import (
    NO_OPERATIONS,
    check_group,
    describe_each,
    group_error,
    is_coordinator,
    map_names,
)
from gateway.kafka.calls.group_topics import describable_partitions, describable_topics
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.groups.memory import row_bytes
from log_format.groups.row import GroupRow, MemberRow, Partitions

UNKNOWN_VERSION: Final = 6
PAGE: Final = 1_000
LISTED_BYTES: Final = 512
SHARE: Final = "share"
"""Kafka's group type and protocol type of share groups."""
_STATES: Final = {"Reconciling": "PreparingRebalance"}
"""Kafka's words for states of a classic group, where they differ from Tidelog's."""


@answer_concurrently
async def list_groups(call: KafkaCall, request: Any) -> Answer:
    """Answer with the groups that this gateway coordinates and the caller may describe."""
    states = {one.lower() for one in getattr(request, "states_filter", ())}
    types = {one.lower() for one in getattr(request, "types_filter", ())}
    found: list[dict[str, Any]] = []
    try:
        after, more = "", True
        room = call.answer_memory.reserve()
        call.reservations.append(room)
        while more:
            page, more = await call.engine.groups.page(
                after, PAGE, lambda name: is_coordinator(call, name) and call.allows("Describe", "group", name)
            )
            room.grow(LISTED_BYTES * len(page))
            for one in page:
                entry = {
                    "group_id": one.name,
                    "protocol_type": protocol_type_of(one.row),
                    "group_state": _state(call, one.name, one.row, one.state),
                    "group_type": "classic" if is_classic(one.row) else "consumer",
                }
                if _is_wanted(entry, states, types):
                    found.append(entry)
                after = one.name
        found += [one for one in await _share_groups(call) if _is_wanted(one, states, types)]
    except TidelogError as error:
        return call.answer(error_code=group_error(error), groups=())
    return call.answer(error_code=KafkaError.none, groups=found)


def _is_wanted(entry: dict[str, Any], states: set[str], types: set[str]) -> bool:
    return (not states or entry["group_state"].lower() in states) and (not types or entry["group_type"] in types)


async def _share_groups(call: KafkaCall) -> list[dict[str, Any]]:
    """Return every queue as a share group. Raise ``BackOff``."""
    found: list[dict[str, Any]] = []
    after, more = "", True
    room = call.answer_memory.reserve()
    call.reservations.append(room)
    while more:
        page, more = await call.engine.queues.page(
            after, PAGE, lambda name: is_coordinator(call, name) and call.allows("Describe", "group", name)
        )
        room.grow(LISTED_BYTES * len(page))
        now_ms = call.engine.clock.monotonic_ms()
        for name, _ in page:
            has_members = call.shares.members.group(name, now_ms) is not None
            found.append(
                {
                    "group_id": name,
                    "protocol_type": SHARE,
                    "group_state": "Stable" if has_members else "Empty",
                    "group_type": SHARE,
                }
            )
            after = name
    return found


def is_classic(row: GroupRow | None) -> bool:
    """Return whether clients see a classic group. A group with offsets only is one, as in Kafka."""
    return row is None or row.generation == 0 or row.is_classic


def protocol_type_of(row: GroupRow | None) -> str:
    """Return the group's protocol type; empty for a group with offsets only."""
    if row is None or row.generation == 0:
        return ""
    return PROTOCOL_TYPE if row.classic is None else row.classic.protocol_type


def _state(call: KafkaCall, name: str, row: GroupRow | None, state: str) -> str:
    """Return Kafka's word for the group's state."""
    known = call.engine.groups.coordinator.known(name)
    if isinstance(known, ClassicGroup) and row is not None and known.row.epoch == row.epoch:
        return str(known.phase)
    return _STATES.get(state, state) if is_classic(row) else state


@answer_concurrently
async def describe_groups(call: KafkaCall, request: Any) -> Answer:
    """Answer with groups and their members."""
    return call.answer(groups=await describe_each(call, request, request.groups, _one))


async def _one(call: KafkaCall, name: str) -> dict[str, Any]:
    try:
        check_group(call, name, "Describe")
        found = await call.engine.groups.describe(name)
        call.reservations.append(call.answer_memory.reserve(row_bytes(found.row)))
        return _group(call, name, found)
    except TidelogError as error:
        code, message = group_error(error), error.detail
        if error.code is ErrorCode.UNKNOWN_GROUP and call.version < UNKNOWN_VERSION:
            code = KafkaError.none
        return {**_undescribed(name), "error_code": code, "error_message": message}


def _group(call: KafkaCall, name: str, found: GroupDescription) -> dict[str, Any]:
    row = found.row
    state = _state(call, name, row, found.state)
    return {
        **_undescribed(name),
        "group_state": _STATES.get(state, state),
        "protocol_type": protocol_type_of(row),
        "protocol_data": (row and row.assignor) or "",
        "members": [_member(call, member, readable) for member, readable in found.members],
    }


def _member(call: KafkaCall, member: MemberRow, readable: Partitions) -> dict[str, Any]:
    classic = member.classic
    opaque = None if classic is None or classic.protocols else classic
    topics = describable_topics(call, member.topics if member.pattern is None else sorted(member.read_topics))
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id or "",
        "client_host": "" if classic is None else classic.client_host,
        "member_metadata": subscription_of(topics) if opaque is None else opaque.metadata,
        "member_assignment": assignment_of(describable_partitions(call, readable))
        if opaque is None
        else opaque.assignment,
    }


def _undescribed(name: str) -> dict[str, Any]:
    return {
        "error_code": KafkaError.none,
        "error_message": None,
        "group_id": name,
        "group_state": "Dead",
        "protocol_type": "",
        "protocol_data": "",
        "members": (),
        "authorized_operations": NO_OPERATIONS,
    }


@answer_concurrently
async def delete_groups(call: KafkaCall, request: Any) -> Answer:
    """Delete groups that have no members, with their offsets."""
    return call.answer(results=await map_names(request.groups_names, partial(_delete_with_audit, call)))


async def _delete_with_audit(call: KafkaCall, name: str) -> dict[str, Any]:
    code = KafkaError.none
    try:
        check_group(call, name, "Delete")
        await administer(call, Right("Delete", "group", name), partial(_delete, call, name))
    except TidelogError as error:
        code = group_error(error)
    return {"group_id": name, "error_code": code}


async def _delete(call: KafkaCall, name: str) -> None:
    """Delete the consumer group, or the share group if there is no consumer group. Raise ``RequestRefused``, ``BackOff``,
    ``OutcomeUnknown``."""
    try:
        await call.engine.groups.delete(name)
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.UNKNOWN_GROUP:
            raise
        if call.shares.members.group(name, call.engine.clock.monotonic_ms()) is not None:
            raise RequestRefused(f"Share group {name!r} has members.", code=ErrorCode.GROUP_NOT_EMPTY) from refusal
        await call.engine.queues.delete(name)
