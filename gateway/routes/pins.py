"""Pins: versions of a topic's table that stay readable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Path
from pydantic import WithJsonSchema, model_validator
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.engine.topic_pins import HeldPin
from gateway.gateway import engine_of
from gateway.http import fields
from gateway.http.validation import faults_error
from gateway.openapi.problems import CHANGE_ERRORS, problems
from gateway.routes.reserved_response import reserve_answer
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode
from log_format.records.schema import TIMESTAMP_MS_MAX
from log_format.topic.pins import PIN_NAME, PIN_NAME_CHARACTERS_MAX, Pin

router = APIRouter(route_class=TypedRoute, tags=["topics"])

_NAME: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": PIN_NAME_CHARACTERS_MAX,
    "pattern": f"^{PIN_NAME.pattern}$",
    "examples": ["before-migration"],
}
PIN_BYTES: Final = 1_024
"""Estimated size of a pin's longest JSON, and of making it."""
PinPath = Annotated[str, WithJsonSchema(_NAME), Path(description="The pin's name")]
_READ_ERRORS = (ErrorCode.UNKNOWN_TOPIC, ErrorCode.CORRUPT_SEGMENT, ErrorCode.UNSUPPORTED_TABLE)


class NewPin(fields.Body, example={"name": "before-migration", "ttl_ms": 2592000000}):
    """The version to pin: `version`, or the table of `timestamp`, or neither for the present one; and when the pin ends:
    `expires_ms`, or after `ttl_ms`, or neither for never. Times are ms since the epoch."""

    name: Annotated[str, WithJsonSchema(_NAME)]
    version: fields.Count | None = None
    timestamp: fields.Timestamp | None = None
    expires_ms: fields.Timestamp | None = None
    ttl_ms: Annotated[int, fields.Between(1, TIMESTAMP_MS_MAX)] | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        pairs = (("version", "timestamp"), ("expires_ms", "ttl_ms"))
        both = [(one, other) for one, other in pairs if None not in (getattr(self, one), getattr(self, other))]
        if both:
            raise faults_error([((other,), f"can't be given with {one}") for one, other in both])
        return self


class PinnedVersion(TypedDict):
    """A pin, as a topic's description has it."""

    name: Annotated[str, WithJsonSchema(_NAME)]
    version: fields.Count
    created_at: fields.Timestamp
    expires_at: fields.Timestamp | None


class TopicPin(PinnedVersion):
    """A pin. `held_back_bytes`: stored bytes that the pinned version has and the table has no more; null: its checkpoint can't
    be read."""

    held_back_bytes: fields.Count | None


class TopicPinPage(TypedDict):
    """The pins of a topic, by name. `held_back_bytes`: what they hold back together."""

    pins: list[TopicPin]
    held_back_bytes: fields.Count | None


@router.post(
    "/v1/topics/{topic}/pins",
    status_code=201,
    response_model=TopicPin,
    responses=problems(*_READ_ERRORS, ErrorCode.PIN_ALREADY_EXISTS, ErrorCode.VERSION_GONE, *CHANGE_ERRORS)
    | {
        200: {
            "description": "The version is pinned by this name already; the expiry is the new one.",
            "model": TopicPin,
        }
    },
)
@needs(Need("Alter", "topic", path="topic"))
async def create_pin(request: Request, topic: fields.TopicPath, wanted: NewPin) -> ASGIApp:
    """Pin a version of the topic's table: it stays readable by every Delta reader until the pin ends.

    The present version has every record that was acknowledged before the call.
    """
    engine = engine_of(request)
    expires_at_ms = wanted.expires_ms
    if wanted.ttl_ms is not None:
        expires_at_ms = min(engine.clock.now_ms() + wanted.ttl_ms, TIMESTAMP_MS_MAX)
    with await reserve_answer(request, PIN_BYTES) as room:
        held, is_new = await engine.pins.create(
            topic, wanted.name, expires_at_ms=expires_at_ms, version=wanted.version, at_ms=wanted.timestamp
        )
        return await room.json(lambda: _described(held), 201 if is_new else 200)


@router.get("/v1/topics/{topic}/pins", responses=problems(*_READ_ERRORS))
@needs(Need("Describe", "topic", path="topic"))
async def list_pins(request: Request, topic: fields.TopicPath) -> TopicPinPage:
    """List the topic's pins, and what they hold back."""
    found = await engine_of(request).pins.list_pins(topic)
    return {"pins": [_described(held) for held in found.pins], "held_back_bytes": found.held_back_bytes}


@router.delete(
    "/v1/topics/{topic}/pins/{pin}",
    status_code=204,
    responses=problems(ErrorCode.UNKNOWN_TOPIC, ErrorCode.UNKNOWN_PIN, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Alter", "topic", path="topic"))
async def delete_pin(request: Request, topic: fields.TopicPath, pin: PinPath) -> None:
    """Delete a pin. What only its version has is deleted by maintenance."""
    await engine_of(request).pins.delete(topic, pin)


def describe_pins(pins: Iterable[Pin]) -> list[PinnedVersion]:
    """Return the pins for a topic's description."""
    return [
        {
            "name": pin.name,
            "version": pin.version,
            "created_at": pin.created_at_ms,
            "expires_at": pin.expires_at_ms,
        }
        for pin in pins
    ]


def _described(held: HeldPin) -> TopicPin:
    (pin,) = describe_pins([held.pin])
    return {**pin, "held_back_bytes": held.held_back_bytes}
