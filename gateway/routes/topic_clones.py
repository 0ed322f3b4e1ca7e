"""Clones of topics: another topic with the same records at the same offsets."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field, model_validator
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import allowing, engine_of, require
from gateway.http import fields
from gateway.openapi.problems import CHANGE_ERRORS, problems
from gateway.quotas.limits import PARTITIONS
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.setting_fields import Config
from gateway.routes.topic_rights import require_named
from gateway.routes.typed_route import TypedRoute
from log_format.checkpoints.cloning import TableVersion
from log_format.errors import ErrorCode
from log_format.topic.changes import merged_columns
from log_format.topic.pins import PIN_NAME_CHARACTERS_MAX

router = APIRouter(route_class=TypedRoute, tags=["topics"])


class NewClone(fields.Body, example={"name": "orders-test", "config": {"retention.ms": -1}}):
    """The topic to make. `config`: settings that it has differently; null gives the default.

    `version`, `pin` and `timestamp` name the version of the source's table: at most one of them; without one the newest.
    """

    name: fields.TopicName
    config: Config = Field(default_factory=dict)
    version: Annotated[int | None, fields.Between(0)] = None
    pin: Annotated[str | None, Field(max_length=PIN_NAME_CHARACTERS_MAX)] = None
    timestamp: Annotated[int | None, fields.Between(0)] = None

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        if sum(each is not None for each in (self.version, self.pin, self.timestamp)) > 1:
            raise ValueError("at most one of version, pin and timestamp can be given")
        return self

    @property
    def at(self) -> TableVersion:
        """The version of the source's table."""
        return TableVersion(number=self.version, pin=self.pin, at_ms=self.timestamp)


class Clone(TypedDict):
    """A clone, or how far it is. `source_version`: the version of the source's table that it has; null while files are copied."""

    name: str
    source: str
    topic_id: str | None
    source_version: int | None
    copied_files: int
    files: int
    size_bytes: int | None


class CloneOfTopic(TypedDict):
    """A clone that exists. Stored bytes of the files that its table has: all; of copies of files that the source's table has,
    too; of copies of files that the source's table has no more; of files written for the clone."""

    name: str
    topic_id: str
    size_bytes: fields.Count
    also_in_source_bytes: fields.Count
    only_in_clone_bytes: fields.Count
    own_bytes: fields.Count


class CloneList(TypedDict):
    """The clones of a topic that the caller may see, by name."""

    clones: list[CloneOfTopic]


@router.get(
    "/v1/topics/{topic}/clones",
    responses=problems(ErrorCode.UNKNOWN_TOPIC, ErrorCode.CORRUPT_SEGMENT, ErrorCode.UNSUPPORTED_TABLE),
)
@needs(Need("Describe", "topic", path="topic"))
async def list_clones(request: Request, topic: fields.TopicPath) -> CloneList:
    """List the clones that were made of the topic and exist, and their stored bytes. Of more than 100 the newest."""
    clones = await engine_of(request).cloning.clones(topic, allowing(request, "Describe", "topic"))
    return {
        "clones": [
            {
                "name": one.clone.name,
                "topic_id": one.clone.topic_id,
                "size_bytes": one.found.total,
                "also_in_source_bytes": one.found.also_in_source,
                "only_in_clone_bytes": one.found.only_in_clone,
                "own_bytes": one.found.own,
            }
            for one in clones
        ]
    }


@router.post(
    "/v1/topics/{topic}:clone",
    status_code=201,
    response_model=Clone,
    responses=problems(
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.INVALID_TOPIC_NAME,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_PIN,
        ErrorCode.VERSION_GONE,
        *CHANGE_ERRORS,
    )
    | {202: {"description": "Files are still being copied: ask again.", "model": Clone}},
)
@needs(Need("Read", "topic", path="topic"), Need("Create", "topic"))
@spends(PARTITIONS)
async def clone_topic(request: Request, topic: fields.TopicPath, wanted: NewClone) -> JSONResponse:
    """Make a topic with the records of another at the same offsets, in files of its own that the store copies or links.

    201 when it is made. 202 while files are copied: the same request waits for the rest. The new topic has the settings of the
    other, but no groups, transactions or producers.
    """
    engine = engine_of(request)
    require(request, "Create", "topic", wanted.name)
    administration = engine.administration
    administration.parse_config({name: value for name, value in wanted.config.items() if value is not None})
    source = await administration.describe(topic)
    await require_named(request, wanted.name, {**source.config.overrides, **wanted.config})
    # The clone's columns are claimed first, so that the registry takes no version that they can't hold.
    columns = await engine.schema_readers.columns(source.config.altered(wanted.config).subjects, wanted.name)
    merged_columns(source, columns)
    under_way = await engine.cloning.clone(topic, wanted.name, wanted.config, wanted.at)
    clone: Clone = {
        "name": wanted.name,
        "source": topic,
        "topic_id": None,
        "source_version": None,
        "copied_files": under_way.copied,
        "files": under_way.file_count,
        "size_bytes": None,
    }
    if not under_way.task.done():
        return JSONResponse(clone, 202)
    made = under_way.task.result()
    clone |= {
        "topic_id": made.state.topic_id,
        "source_version": made.source_version,
        "copied_files": made.file_count,
        "files": made.file_count,
        "size_bytes": made.size_bytes,
    }
    if made.is_new and not under_way.is_charged:
        under_way.is_charged = True
        quota_charges.charge_partitions(request, made.state.partition_count)
    return JSONResponse(clone, 201)
