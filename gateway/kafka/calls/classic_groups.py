"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: groups whose members assign partitions among themselves.

Source: KIP-62, KIP-345, KIP-394, KIP-559 (protocol in answers), KIP-800 (reasons, which are ignored), KIP-814.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.bounds import REBALANCE_TIMEOUT_MS_MAX, SESSION_TIMEOUT_MS_MAX, SESSION_TIMEOUT_MS_MIN
from gateway.groups.calls.classic import Sender
from gateway.groups.classic.member import ClassicJoinRequest
from gateway.kafka.administration import Right, administer
from gateway.kafka.call import Answer, KafkaCall, answer_concurrently
from gateway.kafka.calls.coordinator import check_group, group_error, is_name, milliseconds
from log_format.access.acls import CLUSTER
from log_format.cluster.proof import NOBODY
from log_format.errors import ErrorCode, RequestRefused, TidelogError

_ANY_MEMBER: Final = Right("Alter", "cluster", CLUSTER)

ID_FIRST_VERSION: Final = 4
SKIP_VERSION: Final = 9
PROTOCOLS_MAX: Final = 100


class InvalidSession(RequestRefused):
    """The session timeout is out of range."""


@answer_concurrently
async def join_group(call: KafkaCall, request: Any) -> Answer:
    """Join the group, and wait for the other members of the next generation."""
    try:
        check_group(call, request.group_id, "Read")
        wish = _join_request(call, request)
        # The group reserves memory for members that wait, possibly for minutes: the frame's memory is not needed.
        call.frame.release()
        joined = await call.engine.groups.classic.join(request.group_id, wish, call.owner)
    except TidelogError as error:
        code = KafkaError.invalid_session_timeout if isinstance(error, InvalidSession) else group_error(error)
        return _refuse_join(call, code, request.member_id)
    if isinstance(joined, str):
        return _refuse_join(call, KafkaError.member_id_required, joined)
    return call.answer(
        error_code=KafkaError.none,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            {"member_id": member_id, "group_instance_id": instance_id, "metadata": metadata}
            for member_id, instance_id, metadata in joined.members
        ],
    )


def _join_request(call: KafkaCall, request: Any) -> ClassicJoinRequest:
    session_ms = milliseconds(request.session_timeout)
    if not SESSION_TIMEOUT_MS_MIN <= session_ms <= SESSION_TIMEOUT_MS_MAX:
        raise InvalidSession(f"A session takes {SESSION_TIMEOUT_MS_MIN} to {SESSION_TIMEOUT_MS_MAX} ms.")
    # The first version has one timeout for both.
    rebalance_ms = milliseconds(getattr(request, "rebalance_timeout", request.session_timeout))
    instance_id = getattr(request, "group_instance_id", None)
    names = [one.name for one in request.protocols]
    if (
        not all(map(is_name, (*names, *filter(None, (instance_id, request.protocol_type)))))
        or len(names) > PROTOCOLS_MAX
    ):
        raise RequestRefused("Names have 1 to 255 bytes and no control characters; a member has up to 100 protocols.")
    return ClassicJoinRequest(
        member_id=request.member_id,
        instance_id=instance_id or None,
        client_id=client_name(call),
        client_host=f"/{call.session.address}",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=min(max(rebalance_ms, SESSION_TIMEOUT_MS_MIN), REBALANCE_TIMEOUT_MS_MAX),
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, bytes(one.metadata)) for one in request.protocols),
        reader=call.reader,
        requires_id=call.version >= ID_FIRST_VERSION,
        can_skip_assignment=call.version >= SKIP_VERSION,
    )


def client_name(call: KafkaCall) -> str | None:
    """Return the client's id if it can be shown."""
    return call.client_id if call.client_id and is_name(call.client_id) else None


def _refuse_join(call: KafkaCall, code: KafkaError, member_id: str) -> Answer:
    name = None if call.version >= 7 else ""
    return call.answer(error_code=code, protocol_name=name, leader="", member_id=member_id, members=())


@answer_concurrently
async def sync_group(call: KafkaCall, request: Any) -> Answer:
    """Store the leader's assignment, and answer each member with its own part."""
    protocol_type, protocol = getattr(request, "protocol_type", None), getattr(request, "protocol_name", None)
    expected = None if protocol_type is None or protocol is None else (protocol_type, protocol)
    try:
        check_group(call, request.group_id, "Read")
        assignment = await call.engine.groups.classic.sync(
            request.group_id,
            _sender(call, request),
            request.generation_id,
            expected,
            {one.member_id: bytes(one.assignment) for one in request.assignments},
        )
    except TidelogError as error:
        return call.answer(error_code=group_error(error), assignment=b"")
    return call.answer(
        error_code=KafkaError.none, protocol_type=protocol_type, protocol_name=protocol, assignment=assignment
    )


async def heartbeat(call: KafkaCall, request: Any) -> Answer:
    """Renew a member's session."""
    try:
        check_group(call, request.group_id, "Read")
        await call.engine.groups.classic.heartbeat(request.group_id, _sender(call, request), request.generation_id)
    except TidelogError as error:
        return call.answer(error_code=group_error(error))
    return call.answer(error_code=KafkaError.none)


@answer_concurrently
async def leave_group(call: KafkaCall, request: Any) -> Answer:
    """Remove members from the group. An operator may name static members by their instance ids alone."""
    members = getattr(request, "members", None)
    leaving = (
        [(request.member_id, None)] if members is None else [(one.member_id, one.group_instance_id) for one in members]
    )
    try:
        check_group(call, request.group_id, "Read")
        refusals = await _remove_members(call, request.group_id, leaving)
    except TidelogError as error:
        return call.answer(error_code=group_error(error), members=())
    codes = [KafkaError.none if refusal is None else group_error(refusal) for refusal in refusals]
    return call.answer(
        error_code=codes[0] if members is None else KafkaError.none,
        members=[
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": code}
            for (member_id, instance_id), code in zip(leaving, codes, strict=True)
        ],
    )


async def _remove_members(
    call: KafkaCall, group: str, leaving: Sequence[tuple[str, str | None]]
) -> Sequence[TidelogError | None]:
    """Return each member's refusal, or None. A caller that may alter the cluster also removes others' members, which is
    audited."""
    leave = call.engine.groups.classic.leave
    refusals = await leave(group, leaving, call.owner)
    unknown = [at for at, refusal in enumerate(refusals) if refusal and refusal.code is ErrorCode.UNKNOWN_MEMBER]
    if not unknown or not call.allows(*_ANY_MEMBER):
        return refusals
    again = await administer(call, _ANY_MEMBER, lambda: leave(group, [leaving[at] for at in unknown], NOBODY))
    later_refusals = dict(zip(unknown, again, strict=True))
    return [later_refusals.get(at, refusal) for at, refusal in enumerate(refusals)]


def _sender(call: KafkaCall, request: Any) -> Sender:
    return Sender(
        member_id=request.member_id, instance_id=getattr(request, "group_instance_id", None), owner=call.owner
    )
