"""Erasures: ask that what a topic has of a person be erased, and see how far that is."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.call import detached_from_call
from gateway.codec.base64_text import decode_base64
from gateway.engine.erasures import ShownErasure
from gateway.gateway import allowing, engine_of
from gateway.http import fields
from gateway.openapi.problems import CHANGE_ERRORS, problems
from gateway.problem import refused
from gateway.routes.erased_letters import ErasedLetters, erase_letters
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode, RequestRefused
from log_format.records.condition import Condition, parse_condition
from log_format.records.condition_syntax import CHARACTERS_MAX, ConditionError
from log_format.topic.config import Subjects
from log_format.topic.erasure_changes import ERASURE_KEYS_MAX

router = APIRouter(route_class=TypedRoute, tags=["erasures"])

_NOT_REACHED: Final = (
    "records appended after the request, also those of a transaction that was open, or of an upload that was not committed",
    "dead letters in topics that no present queue names, or where this caller may not delete",
    "clones of the topic that were made before: each needs a request of its own",
    "copies outside this store: backups, mirrors, what readers have kept",
)

ErasurePath = Annotated[str, Path(description="The request's id", examples=["e019aa7d9b400-0f1d2c3b"])]
_Texts = Annotated[list[str], Field(max_length=ERASURE_KEYS_MAX)]


class ErasedHeader(fields.Body):
    """A header that records have. Exactly one of `value` and `value_base64` must be there."""

    key: str
    value: Annotated[str | None, fields.NotNull()] = None
    value_base64: Annotated[str | None, fields.NotNull()] = None


class NewErasure(fields.Body, example={"keys": ["user-7"]}):
    """The records that are meant: those with any of the keys or headers, and those for whose typed columns the condition `where`
    holds, such as `data.customer = 7 and data.country in ('DE', 'FR')`. `before`: only those with earlier timestamps."""

    keys: _Texts = Field(default_factory=list)
    keys_base64: _Texts = Field(default_factory=list)
    headers: Annotated[list[ErasedHeader], Field(max_length=ERASURE_KEYS_MAX)] = Field(default_factory=list)
    where: Annotated[str | None, fields.NotNull(), Field(max_length=CHARACTERS_MAX)] = None
    before: Annotated[fields.Timestamp | None, fields.NotNull()] = None


class ErasureAnswer(TypedDict):
    """A request to erase. `status`: `requested`; `rewritten`: the table has nothing of it from `version` on; `gone`: no object in
    the store has. `where`: whether it has a condition on columns. `records`, `bytes`: records erased and stored bytes of the
    segments rewritten, so far. `files_until`: how long older files stay at most, except those that a failed write left."""

    erasure_id: str
    status: Literal["requested", "rewritten", "gone"]
    requested_at: fields.Timestamp
    keys: fields.Count
    headers: fields.Count
    where: bool
    before: fields.Timestamp | None
    keep: Literal["key", "nothing"]
    records: fields.Count
    bytes: fields.Count
    version: fields.Count | None
    rewritten_at: fields.Timestamp | None
    files_until: fields.Timestamp | None
    gone_at: fields.Timestamp | None


class _Condition(TypedDict, total=False):
    where: Condition
    judged_by: Subjects


class AcceptedErasure(ErasureAnswer):
    """A request that is recorded, those about its dead letters in other topics, and what it does not reach. `clones`: the topic's
    clones that the caller may see, each of which needs a request of its own; null: the store did not tell."""

    dead_letters: list[ErasedLetters]
    clones: list[str] | None
    not_reached: list[str]


class ErasureList(TypedDict):
    """All requests that are not finished, and the newest finished ones, oldest first."""

    erasures: list[ErasureAnswer]


_ERRORS = (ErrorCode.UNKNOWN_TOPIC, ErrorCode.CORRUPT_SEGMENT, ErrorCode.UNSUPPORTED_TABLE)


@router.post(
    "/v1/topics/{topic}/erasures", status_code=202, responses=problems(ErrorCode.UNKNOWN_TOPIC, *CHANGE_ERRORS)
)
@needs(Need("Delete", "topic", path="topic"))
async def erase_records(request: Request, topic: fields.TopicPath, wanted: NewErasure) -> AcceptedErasure:
    """Ask that the records with these keys or headers lose their values. Maintenance carries it out.

    Dead letters of them are meant, too, in topics where the caller has the right Delete.
    """
    keys = [_bytes(text, f"/keys/{index}") for index, text in enumerate(wanted.keys)]
    keys += [_decoded(text, f"/keys_base64/{index}") for index, text in enumerate(wanted.keys_base64)]
    headers = [(one.key, _value(one, f"/headers/{index}")) for index, one in enumerate(wanted.headers)]
    for index, (name, _) in enumerate(headers):
        _bytes(name, f"/headers/{index}/key")
    erasures = engine_of(request).erasures
    where = None if wanted.where is None else _condition(wanted.where)
    if not keys and not headers and where is None:
        raise RequestRefused("A request to erase names at least one key or header, or has a condition.")
    more: _Condition = {}
    if where is not None and (subjects := await erasures.subjects(topic, where)).are_set:
        more = {"where": where, "judged_by": subjects}
    letters = []
    if keys or headers or more:
        letters = await erase_letters(
            request, topic, lambda name, of: erasures.request(name, keys, headers, wanted.before, within=of, **more)
        )
    found = await erasures.request(topic, keys, headers, wanted.before, where=where)
    with detached_from_call():  # the request is recorded
        clones = await erasures.clones(topic)
    may_see = allowing(request, "Describe", "topic")
    seen = None if clones is None else sorted(filter(may_see, clones))
    return {**_answer(found), "dead_letters": letters, "clones": seen, "not_reached": [*_NOT_REACHED]}


@router.get("/v1/topics/{topic}/erasures", responses=problems(*_ERRORS))
@needs(Need("Describe", "topic", path="topic"))
async def list_erasures(request: Request, topic: fields.TopicPath) -> ErasureList:
    """List requests to erase."""
    return {"erasures": [_answer(one) for one in await engine_of(request).erasures.list(topic)]}


@router.get("/v1/topics/{topic}/erasures/{erasure}", responses=problems(*_ERRORS, ErrorCode.UNKNOWN_ERASURE))
@needs(Need("Describe", "topic", path="topic"))
async def describe_erasure(request: Request, topic: fields.TopicPath, erasure: ErasurePath) -> ErasureAnswer:
    """Describe a request to erase: how far it is."""
    return _answer(await engine_of(request).erasures.find(topic, erasure))


def _answer(shown: ShownErasure) -> ErasureAnswer:
    one = shown.erasure
    status: Literal["requested", "rewritten", "gone"] = "rewritten" if one.is_rewritten else "requested"
    headers = sum(matcher.header is not None for matcher in one.wanted)
    return {
        "erasure_id": one.erasure_id,
        "status": status if shown.gone_ms is None else "gone",
        "requested_at": one.requested_ms,
        "keys": len(one.wanted) - headers,
        "headers": headers,
        "where": one.where is not None,
        "before": one.before_ms,
        "keep": one.keep,
        "records": one.record_count,
        "bytes": one.size_bytes,
        "version": one.rewritten_version,
        "rewritten_at": one.rewritten_ms,
        "files_until": None if one.rewritten_ms is None else one.rewritten_ms + shown.grace_ms,
        "gone_at": shown.gone_ms,
    }


def _condition(text: str) -> Condition:
    try:
        return parse_condition(text)
    except ConditionError as problem:
        raise refused(str(problem), [("/where", str(problem))]) from problem


def _value(header: ErasedHeader, where: str) -> bytes:
    if (header.value is None) == (header.value_base64 is None):
        what = "must have exactly one of value and value_base64"
        raise refused(f"A header {what}.", [(where, what)])
    if header.value is not None:
        return _bytes(header.value, f"{where}/value")
    return _decoded(header.value_base64 or "", f"{where}/value_base64")


def _bytes(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        what = "must be text that UTF-8 can have"
        raise refused(f"A key or header {what}.", [(where, what)]) from None


def _decoded(text: str, where: str) -> bytes:
    found = decode_base64(text)
    if found is None:
        what = "must be base64: the standard alphabet, padded"
        raise refused(f"A key or header's value {what}.", [(where, what)])
    return found
