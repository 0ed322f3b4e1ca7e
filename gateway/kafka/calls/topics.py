"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords.

Each resource of a request succeeds or fails by itself. The replication factor has no meaning here, and any is accepted. A replica
assignment only gives the number of partitions. Timeouts of requests are ignored: each change ends within the gateway's own
timeout.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.gateway import Gateway
from gateway.kafka import topic_settings
from gateway.kafka.administration import Right, administer, answer_each, encode_each, require_rights_of_settings
from gateway.kafka.call import Answer, KafkaCall
from gateway.quotas.limits import PARTITIONS
from log_format import limits
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.topic.config import TopicConfig, check_topic_name
from log_format.topic.state import TopicState

PARTITIONS_DEFAULT: Final = 1
"""Partitions of a topic that is created with -1 partitions, as over HTTP."""
_DEFAULT: Final = -1
_DYNAMIC_TOPIC_CONFIG, _DEFAULT_CONFIG = 1, 5


async def create_topics(call: KafkaCall, request: Any) -> Answer:
    """Create topics; with ``validate_only`` only check whether they could be created."""
    twice = _find_duplicates(topic.name for topic in request.topics)

    async def created(topic: Any) -> dict[str, Any]:
        if topic.name in twice:
            return _refuse_duplicate("topic")
        count, config = _partition_count(topic), _config(call, topic)
        if not 1 <= count <= limits.PARTITION_COUNT_MAX:
            what = f"from 1 to {limits.PARTITION_COUNT_MAX} partitions, or -1 for {PARTITIONS_DEFAULT}"
            return _refuse(KafkaError.invalid_partitions, f"A topic has {what}.")
        right = Right("Create", "topic", topic.name)
        await require_rights_of_settings(call, topic.name, config.overrides)
        state: TopicState | None
        if request.validate_only:
            call.require(*right)
            await _check_missing(call.gateway, topic.name)
            state = None
        else:
            state = await administer(call, right, lambda: create_topic(call, topic.name, count, config))
        return _created_fields(None if state is None else call.known_topics.remember_id(state), count, config)

    return await encode_each(call, "topics", request.topics, created, lambda topic: _NOT_CREATED | {"name": topic.name})


async def delete_topics(call: KafkaCall, request: Any) -> Answer:
    """Delete topics, named by name or, from version 6, by id."""
    if call.version >= 6:
        wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wanted = [(name, None) for name in request.topic_names]
    twice = _find_duplicates(wanted)

    async def deleted(one: tuple[str | None, Any]) -> dict[str, Any]:
        name, topic_id = one
        if one in twice:
            return _refuse_duplicate("topic")
        administration = call.engine.administration
        if name is not None:
            if topic_id is not None:
                raise RequestRefused("A topic must be given by its name or by its id.")
            await administer(call, Right("Delete", "topic", name), lambda: administration.delete(name))
            return {"name": name}
        is_allowed = partial(call.allows, "Describe", "topic")
        found = await call.known_topics.look_up_current(topic_id, is_allowed)
        if found is None or not is_allowed(found):
            return _unknown_id(topic_id)
        try:
            await administer(call, Right("Delete", "topic", found), lambda: administration.delete(found, str(topic_id)))
        except UnknownTopic:
            return _unknown_id(topic_id)
        return {"name": found}

    answers = await answer_each(call, wanted, deleted)
    return call.answer(
        responses=[
            {"name": name, "topic_id": topic_id} | answer
            for (name, topic_id), answer in zip(wanted, answers, strict=True)
        ]
    )


def _unknown_id(topic_id: Any) -> dict[str, Any]:
    return {"error_code": KafkaError.unknown_topic_id, "error_message": f"No topic has the id {topic_id}."}


async def create_partitions(call: KafkaCall, request: Any) -> Answer:
    """Add partitions to topics."""
    twice = _find_duplicates(topic.name for topic in request.topics)
    administration = call.engine.administration

    async def grown(topic: Any) -> dict[str, Any]:
        if topic.name in twice:
            return _refuse_duplicate("topic")
        call.require("Alter", "topic", topic.name)
        before = (await administration.describe(topic.name)).partition_count
        if not before < topic.count <= limits.PARTITION_COUNT_MAX:
            what = f"has {before}, and can have {limits.PARTITION_COUNT_MAX}: it can't be given {topic.count}"
            return _refuse(KafkaError.invalid_partitions, f"Topic {topic.name!r} {what}.")
        if not request.validate_only:
            _check_quota(call)
            right = Right("Alter", "topic", topic.name)
            await administer(call, right, lambda: administration.alter(topic.name, topic.count, {}))
            call.spend(PARTITIONS, topic.count - before)
        return {}

    answers = await answer_each(call, request.topics, grown)
    named = zip(request.topics, answers, strict=True)
    return call.answer(results=[answer | {"name": topic.name} for topic, answer in named])


async def delete_records(call: KafkaCall, request: Any) -> Answer:
    """Delete the oldest records of partitions: those below an offset, or all (-1). An invalid partition does not affect the
    others of its topic."""

    async def deleted(topic: Any) -> dict[str, Any]:
        right = Right("Delete", "topic", topic.name)
        call.require(*right)
        administration = call.engine.administration
        state = await administration.describe(topic.name)
        wrong = {one.partition_index: _fault(state, one) for one in topic.partitions}
        before = {
            one.partition_index: one.offset for one in topic.partitions if wrong[one.partition_index] is KafkaError.none
        }
        starts: Mapping[int, int] = {}
        if before:
            starts = await administer(call, right, lambda: administration.delete_records(topic.name, before))
        return {"starts": starts, "wrong": wrong}

    answers = await answer_each(call, request.topics, deleted)
    return call.answer(
        topics=[
            {"name": topic.name, "partitions": [_log_start(one.partition_index, answer) for one in topic.partitions]}
            for topic, answer in zip(request.topics, answers, strict=True)
        ]
    )


async def create_topic(call: KafkaCall, name: str, count: int, config: TopicConfig) -> TopicState:
    """Create the topic within the caller's quota. Raise ``RequestRefused`` (``TOPIC_ALREADY_EXISTS``), ``Throttled``,
    ``BackOff``, ``OutcomeUnknown``."""
    _check_quota(call)
    state, is_new = await call.engine.administration.create(name, count, config)
    if not is_new:
        raise _exists(name)
    call.spend(PARTITIONS, count)
    return state


async def _check_missing(gateway: Gateway, name: str) -> None:
    """Raise if the topic exists, as creating it would."""
    try:
        await gateway.engine.administration.describe(name)
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.UNKNOWN_TOPIC:
            raise
    else:
        raise _exists(name)


def _partition_count(topic: Any) -> int:
    """Return the number of partitions to create. Raise ``RequestRefused``."""
    check_topic_name(topic.name)
    count: int = topic.num_partitions
    if topic.assignments:
        indices = sorted(one.partition_index for one in topic.assignments)
        if count != _DEFAULT or indices != list(range(len(indices))):
            raise RequestRefused(
                "A replica assignment must have each partition from 0 once; their number is the partition count."
            )
        count = len(indices)
    if count == _DEFAULT:
        return PARTITIONS_DEFAULT
    return count


def _config(call: KafkaCall, topic: Any) -> TopicConfig:
    given = topic_settings.translate_settings({one.name: one.value for one in topic.configs})
    return call.engine.administration.parse_config(given)


def _created_fields(topic_id: uuid.UUID | None, count: int, config: TopicConfig) -> dict[str, Any]:
    return {
        "topic_id": topic_id,
        "num_partitions": count,
        "replication_factor": 1,
        "configs": [
            {
                "name": one.name,
                "value": one.value,
                "read_only": False,
                "config_source": _DYNAMIC_TOPIC_CONFIG if one.is_set else _DEFAULT_CONFIG,
                "is_sensitive": False,
            }
            for one in topic_settings.describe_settings(config)
        ],
    }


_NOT_CREATED: Final = {"topic_id": None, "configs": None}


def _fault(state: TopicState, wanted: Any) -> KafkaError:
    partition, offset = wanted.partition_index, wanted.offset
    if not 0 <= partition < state.partition_count:
        return KafkaError.unknown_topic_or_partition
    if not -1 <= offset <= state.high_watermark(partition):
        return KafkaError.offset_out_of_range
    return KafkaError.none


def _log_start(partition: int, answer: Mapping[str, Any]) -> dict[str, Any]:
    error = answer["error_code"]
    if error is KafkaError.none:
        error = answer["wrong"][partition]
    log_start = answer["starts"][partition] if error is KafkaError.none else -1
    return {"partition_index": partition, "low_watermark": log_start, "error_code": error}


def _find_duplicates(names: Any) -> set[Any]:
    return {name for name, count in Counter(names).items() if count > 1}


def _refuse_duplicate(what: str) -> dict[str, Any]:
    return _refuse(KafkaError.invalid_request, f"The request names the {what} more than once.")


def _refuse(code: KafkaError, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message}


def _exists(name: str) -> RequestRefused:
    return RequestRefused(f"Topic {name!r} exists.", code=ErrorCode.TOPIC_ALREADY_EXISTS)


def _check_quota(call: KafkaCall) -> None:
    """Raise ``Throttled`` if the caller's quota for creating partitions is exhausted."""
    if call.gateway.quotas is not None:
        call.gateway.quotas.check(call.caller.principal, PARTITIONS)
