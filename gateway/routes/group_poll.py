"""``POST /v1/groups/{group}/poll``: join, commit, heartbeat and fetch in one request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Self

import msgspec
from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field, model_validator
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.access.needs import Need, needs
from gateway.codec.media_type import JSON, negotiate
from gateway.gateway import answer_memory, check_member, engine_of, gateway_of, require, standing_of
from gateway.groups.bounds import OFFSETS_PER_REQUEST_MAX
from gateway.groups.calls.groups import JoinRequest
from gateway.groups.calls.polling import AutoReset, PollRequest, PollResult
from gateway.http import fields
from gateway.http.disconnect import cancel_on_disconnect, check_connected
from gateway.http.parameters import accept_header
from gateway.http.validation import Fault, faults_error
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.problem import request_id
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.administration import note_denials
from gateway.routes.fetch_operation import FetchedPartitions, Limits
from gateway.routes.fetched_records import partitions_response
from gateway.routes.filter_fields import FilterQuery
from gateway.routes.group_offsets import Offsets, Position
from gateway.routes.groups import MEMBER_ERRORS, Generation, Subscription
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode, TidelogError

router = APIRouter(route_class=TypedRoute, tags=["groups"])


class ReadPosition(Position):
    """Position to continue at. `topic_id`: the topic of the offset; if it was re-created, reading begins where the group
    begins."""

    topic_id: fields.Opaque | None = None


class Poll(Limits, Subscription, example={"topics": ["flights"], "max_wait_ms": 1000}):
    """Without `member_id` the call joins. The fields of a join are allowed only without `member_id`."""

    member_id: fields.Opaque | None = None
    generation: Generation | None = None
    commit: Offsets | None = None
    positions: (
        Annotated[
            list[ReadPosition],
            Field(max_length=OFFSETS_PER_REQUEST_MAX),
            AfterValidator(fields.check_unique_partitions),
        ]
        | None
    ) = None
    auto_offset_reset: Annotated[AutoReset, fields.ErrorMessage("must be one of earliest, latest, none")] = "earliest"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        found: list[Fault] = []
        if self.commit and (self.member_id is None or self.generation is None):
            found.append((("commit",), "needs member_id and generation"))
        if self.member_id is None:
            if self.generation is not None:
                found.append((("generation",), "needs a member_id"))
            found += self.subscription_faults()
        else:
            given = [name for name in Subscription.model_fields if name in self.model_fields_set]
            found += [((name,), "is for joining only: it goes without member_id") for name in given]
        if found:
            raise faults_error(found)
        return self

    def wish(self, unreadable: Callable[[Iterable[str]], Awaitable[Mapping[str, TidelogError]]]) -> PollRequest:
        """Return the poll for the engine, without its filter. ``unreadable``: returns the topics that the caller may not read."""
        return PollRequest(
            member_id=self.member_id or "",
            generation=self.generation,
            commit=[one.next_offset() for one in self.commit or ()],
            positions={one.key: one.offset for one in self.positions or ()},
            topic_ids={one.key: one.topic_id for one in self.positions or () if one.topic_id is not None},
            auto_offset_reset=self.auto_offset_reset,
            limits=self.limits(),
            unreadable=unreadable,
        )


class PolledPartitions(FetchedPartitions):
    """The result of every partition that the member may read."""

    member_id: fields.Opaque
    generation: Generation
    rebalanced: bool


@router.post(
    "/v1/groups/{group}/poll",
    response_model=PolledPartitions,
    responses=problems(
        *MEMBER_ERRORS,
        *BODY_ERRORS,
        ErrorCode.INCONSISTENT_ASSIGNOR,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.UNKNOWN_PARTITION,
        ErrorCode.INVALID_TOPIC_NAME,
        ErrorCode.NOT_ACCEPTABLE,
    ),
)
@needs(Need("Read", "group", path="group"), Need("Read", "topic"))
@spends(FETCH_BYTES)
async def poll(
    request: Request, group: fields.GroupPath, query: Annotated[FilterQuery, Query()], asked: Poll
) -> ASGIApp:
    """Join, commit, acknowledge and read in one call, for clients that keep no state."""
    negotiate(accept_header(request), (JSON,))
    unreadable = partial(standing_of(request).unreadable, group=group)
    check = partial(check_connected, request)
    wish = replace(asked.wish(unreadable), filter=query.record_filter, check_connected=check)
    joining = asked.joining(request) if asked.member_id is None else None
    await check_member(request, group, asked.member_id)
    require(request, "Read", "topic", *(one.topic for one in asked.commit or ()))
    work = _poll(answer_memory(request), engine_of(request), group, wish, joining)
    polled = await (work if wish.limits.wait_ms_max == 0 else cancel_on_disconnect(request, work))
    quota_charges.charge_fetched(request, polled.answer)
    note_denials(request, polled.answer.parts)
    opening = msgspec.json.encode(
        {"member_id": polled.member_id, "generation": polled.generation, "rebalanced": polled.rebalanced}
    )
    return partitions_response(
        gateway_of(request), opening[:-1] + b",", polled.keys, polled.answer, request_id(request)
    )


async def _poll(
    memory: Memory, engine: LogEngine, name: str, wish: PollRequest, joining: JoinRequest | None
) -> PollResult:
    groups = engine.groups
    if joining is None:
        group = await groups.of_member(name, wish.member_id)
    else:
        group, joined = await groups.join(name, joining)
        wish = wish.for_member(joined.member.member_id)
    return await groups.polling.poll(group, wish, memory)
