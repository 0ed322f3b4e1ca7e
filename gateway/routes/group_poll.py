"""``POST /v1/groups/{group}/poll``: join, commit, heartbeat and fetch in one call."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.codec.media_type import JSON, negotiate
from gateway.engine.fetching import FetchLimits
from gateway.gateway import answer_memory, engine_of, gateway_of
from gateway.groups.bounds import OFFSETS_PER_REQUEST_MAX
from gateway.groups.committed import Key
from gateway.groups.groups import Joining
from gateway.groups.polling import AutoReset, Polled, PollWish
from gateway.http.direct_route import DirectRoute
from gateway.http.disconnect import still_connected, unless_disconnected
from gateway.http.identifiers import path_group
from gateway.http.json_request import Members
from gateway.http.parameters import NO_PARAMETERS, accepted
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory
from gateway.openapi.document import answer, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import OFFSET, PARTITION, TOPIC_NAME, list_of, object_of, ref
from gateway.problem import request_id
from gateway.routes.fetch import LIMITS, limits_of, many_response
from gateway.routes.group_offsets import NEXT_OFFSET, next_offsets_of
from gateway.routes.groups import (
    BODY_ERRORS,
    GENERATION,
    JOIN_NAMES,
    JOIN_PROPERTIES,
    MEMBER_ERRORS,
    MEMBER_ID,
    joining_of,
)
from gateway.routes.json_members import json_parsed
from log_format.errors import ErrorCode

router = APIRouter(route_class=DirectRoute)

_RESETS: Final = get_args(AutoReset)
_POSITION: Final = object_of({"topic": TOPIC_NAME, "partition": PARTITION, "offset": OFFSET}, closed=True)
_WISH: Final = object_of(
    {
        "member_id": {**MEMBER_ID, "type": ["string", "null"]},
        "generation": {**GENERATION, "type": ["integer", "null"]},
        "commit": {"anyOf": [list_of(NEXT_OFFSET), {"type": "null"}]},
        "positions": {"anyOf": [list_of(_POSITION), {"type": "null"}]},
        "auto_offset_reset": {"type": "string", "enum": list(_RESETS), "default": "earliest"},
        **{parameter.name: dict(parameter.schema) for parameter in LIMITS},
        **JOIN_PROPERTIES,
    },
    required=(),
    closed=True,
)
_FAILED: Final = object_of({"topic": TOPIC_NAME, "partition": PARTITION, "error": ref("Problem")})
_POLLED: Final = object_of(
    {
        "member_id": MEMBER_ID,
        "generation": GENERATION,
        "rebalanced": {"type": "boolean"},
        "partitions": list_of({"anyOf": [ref("Fetched"), _FAILED]}),
    }
)


@router.post(
    "/v1/groups/{group}/poll",
    **operation(
        summary="Join, commit, acknowledge and read in one call",
        tag="groups",
        path=("group",),
        body=body_of(_WISH, example={"topics": ["flights"], "max_wait_ms": 1000}),
        answers={200: answer("What every partition that the member may read gave", _POLLED)},
        errors=(
            *MEMBER_ERRORS,
            *BODY_ERRORS,
            ErrorCode.INCONSISTENT_ASSIGNOR,
            ErrorCode.UNKNOWN_TOPIC,
            ErrorCode.UNKNOWN_PARTITION,
            ErrorCode.INVALID_TOPIC_NAME,
            ErrorCode.NOT_ACCEPTABLE,
        ),
    ),
)
async def poll(request: Request) -> ASGIApp:
    """For clients that keep no state: what they processed goes into ``commit`` of the next call."""
    gateway, engine = gateway_of(request), engine_of(request)
    NO_PARAMETERS.parse(request)
    name = path_group(request)
    negotiate(accepted(request), (JSON,))
    wish, joining = await json_parsed(request, _wish)
    if wish.commit:
        await still_connected(request)
    work = _polled(answer_memory(request), engine, name, wish, joining)
    polled = await (work if wish.limits.wait_ms_max == 0 else unless_disconnected(request, work))
    opening = msgspec.json.encode(
        {"member_id": polled.member_id, "generation": polled.generation, "rebalanced": polled.rebalanced}
    )
    return many_response(gateway, opening[:-1] + b",", polled.keys, polled.answer, request_id(request))


async def _polled(memory: Memory, engine: LogEngine, name: str, wish: PollWish, joining: Joining | None) -> Polled:
    groups = engine.groups
    if joining is None:
        group = await groups.existing(name)
    else:
        group, joined = await groups.join(name, joining)
        wish = wish.by(joined.member.member_id)
    return await groups.polling.poll(group, wish, memory)


def _wish(members: Members) -> tuple[PollWish, Joining | None]:
    """What a body asks for, and how to join where it names no member. Raises ``RequestRefused``."""
    member_id = members.text("member_id") if members.raw("member_id") is not None else None
    generation = members.integer("generation", minimum=0) if members.raw("generation") is not None else None
    commit = next_offsets_of(members, "commit") if members.raw("commit") is not None else []
    positions = _positions(members) if members.raw("positions") is not None else {}
    reset: Any = members.raw("auto_offset_reset") if members.has("auto_offset_reset") else "earliest"
    if reset not in _RESETS:
        members.fault("auto_offset_reset", f"must be one of {', '.join(_RESETS)}")
    limits: FetchLimits = limits_of(members)
    if commit and (member_id is None or generation is None):
        members.fault("commit", "needs member_id and generation")
    if member_id is None and generation is not None:
        members.fault("generation", "needs a member_id")
    joining = None
    if member_id is None:
        joining = joining_of(members)
    else:
        for name in JOIN_NAMES:
            if members.has(name):
                members.fault(name, "is for joining only: it goes without member_id")
    members.finish()
    auto_reset: Literal["earliest", "latest", "none"] = reset
    wish = PollWish(
        member_id=member_id or "",
        generation=generation,
        commit=commit,
        positions=positions,
        auto_offset_reset=auto_reset,
        limits=limits,
    )
    return wish, joining


def _positions(members: Members) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for entry in members.objects("positions", count_max=OFFSETS_PER_REQUEST_MAX):
        key = (entry.text("topic"), entry.integer("partition", minimum=0, maximum=(1 << 31) - 1))
        if key in found:
            entry.fault("partition", "is there twice")
        found[key] = entry.integer("offset", minimum=0)
        entry.refuse_unknown()
    return found
