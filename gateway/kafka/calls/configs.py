"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: settings of topics and share groups; read-only settings of a broker.

Only the broker settings that tools ask for are listed. They cannot be altered: a gateway reads its settings at start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from gateway.engine.own_topic import check_change
from gateway.kafka import group_settings, topic_settings
from gateway.kafka.administration import Right, administer, answer_each, encode_each, require_rights_of_settings
from gateway.kafka.brokers import node_id
from gateway.kafka.call import Answer, KafkaCall
from gateway.kafka.calls.coordinator import is_name
from gateway.kafka.calls.topics import PARTITIONS_DEFAULT
from gateway.kafka.topic_settings import BOOLEAN, INT, LONG, STRING, DescribedSetting
from log_format.access.acls import CLUSTER
from log_format.errors import ErrorCode, RequestRefused
from log_format.layout import OWN_TOPICS
from log_format.queues.row import QueueSettings
from log_format.topic.config import SETTINGS, ConfigValue

TOPIC, BROKER, GROUP = 2, 4, 32
"""Kafka's numbers of the resource types that have settings."""
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
_DYNAMIC_TOPIC, _STATIC_BROKER, _DEFAULT, _DYNAMIC_GROUP = 1, 4, 5, 8
"""Kafka's numbers of where a value comes from."""
_SET_BY_CALL: Final = {TOPIC: _DYNAMIC_TOPIC, GROUP: _DYNAMIC_GROUP}


class _Resource(NamedTuple):
    """A resource that a request names; ``wanted`` is the request's entity."""

    type: int
    name: str
    wanted: Any


async def describe_configs(call: KafkaCall, request: Any) -> Answer:
    """Answer with settings of topics, share groups and this broker: all of them, or those that are named."""

    async def described(resource: _Resource) -> dict[str, Any]:
        keys = resource.wanted.configuration_keys
        if resource.type == TOPIC:
            call.require("Describe", "topic", resource.name)
            state = await call.engine.administration.describe(resource.name)
            told: Iterable[DescribedSetting] = topic_settings.describe_settings(state.config)
        elif resource.type == GROUP:
            call.require("Describe", "group", resource.name)
            told = group_settings.describe_settings(await _group(call, resource.name))
        elif resource.type == BROKER:
            call.require("Describe", "cluster", CLUSTER)
            if resource.name not in ("", (own := _own_id(call))):
                raise _refused(f"Broker {resource.name[:20]} is not this one, which is {own}.")
            told = _broker_settings(call)
        else:
            raise _no_settings(resource.type)
        return {
            "configs": [
                _describe(one, resource.type, with_synonyms=request.include_synonyms)
                for one in told
                if keys is None or one.name in keys
            ]
        }

    return await encode_each(
        call, "results", _resources(request), described, lambda resource: {"configs": ()} | _name(resource)
    )


async def alter_configs(call: KafkaCall, request: Any) -> Answer:
    """Replace all settings of topics and share groups: settings that are not named get their defaults."""

    async def altered(resource: _Resource) -> dict[str, Any]:
        _check(call, resource)
        if resource.type == GROUP:
            known: dict[str, str | None] = {one.name: None for one in group_settings.describe_settings(None)}
            named = {one.name: one.value for one in resource.wanted.configs}
            return await _alter_group(call, resource.name, known | named, request.validate_only)
        given = topic_settings.translate_settings({one.name: one.value for one in resource.wanted.configs})
        return await _alter(call, resource, dict.fromkeys(SETTINGS) | given, request.validate_only)

    resources = _resources(request)
    return call.answer(responses=_named(resources, await answer_each(call, resources, altered)))


async def incremental_alter_configs(call: KafkaCall, request: Any) -> Answer:
    """Set, reset, append to and subtract from settings of topics; set and reset those of share groups."""

    async def altered(resource: _Resource) -> dict[str, Any]:
        _check(call, resource)
        changes: dict[str, str | None] = {}
        for one in resource.wanted.configs:
            if one.name in changes:
                raise _refused(f"{one.name!r} is named more than once.")
            changes[one.name] = await _changed_value(call, resource, one)
        if resource.type == GROUP:
            return await _alter_group(call, resource.name, changes, request.validate_only)
        return await _alter(call, resource, topic_settings.translate_settings(changes), request.validate_only)

    resources = _resources(request)
    return call.answer(responses=_named(resources, await answer_each(call, resources, altered)))


def _check(call: KafkaCall, resource: _Resource) -> None:
    """Raise ``Unauthorized`` without the right to alter; ``RequestRefused`` for a resource whose settings cannot be altered."""
    if resource.type not in _SET_BY_CALL:
        raise _no_settings(resource.type)
    if resource.type == GROUP and not is_name(resource.name):
        raise _refused("A group's name has 1 to 255 bytes and no control characters.")
    call.require("Alter", "topic" if resource.type == TOPIC else "group", resource.name)


async def _alter(
    call: KafkaCall, resource: _Resource, given: Mapping[str, object], validate_only: bool
) -> dict[str, Any]:
    right = Right("Alter", "topic", resource.name)
    if resource.name in OWN_TOPICS and call.gateway.rights.enforced:
        check_change(resource.name, given)
    await require_rights_of_settings(call, resource.name, given)
    administration = call.engine.administration
    config: dict[str, ConfigValue | None] = dict(given)  # type: ignore[arg-type]
    if validate_only:
        state = await administration.describe(resource.name)
        state.config.altered(config, request_bytes_max=call.gateway.settings.request_bytes_max)
    elif given:
        await administer(call, right, lambda: administration.alter(resource.name, None, config))
    else:
        await administration.describe(resource.name)
    return {}


async def _alter_group(
    call: KafkaCall, name: str, given: Mapping[str, str | None], validate_only: bool
) -> dict[str, Any]:
    changes = group_settings.parse_changes(given)
    if changes and not validate_only:
        await administer(call, Right("Alter", "group", name), lambda: call.engine.queues.alter(name, changes))
    return {}


async def _group(call: KafkaCall, name: str) -> QueueSettings | None:
    try:
        return await call.engine.queues.settings(name)
    except RequestRefused as refusal:
        if refusal.code is ErrorCode.UNKNOWN_QUEUE:
            return None
        raise


async def _changed_value(call: KafkaCall, resource: _Resource, change: Any) -> str | None:
    """Return the setting's new value; None for the default. Raise ``RequestRefused``."""
    if change.config_operation == DELETE:
        return None
    if change.config_operation == SET and change.value is not None:
        value: str = change.value
        return value
    if change.config_operation not in (APPEND, SUBTRACT) or change.value is None or resource.type != TOPIC:
        raise _refused(f"{change.name!r} has no value, or an unknown operation {change.config_operation}.")
    if not topic_settings.is_list(change.name):
        raise _refused(f"{change.name!r} is no list: nothing can be appended or subtracted.")
    state = await call.engine.administration.describe(resource.name)
    now = next(one.value for one in topic_settings.describe_settings(state.config) if one.name == change.name)
    words = [word for word in now.split(",") if word]
    named = [word.strip() for word in change.value.split(",")]
    if change.config_operation == SUBTRACT:
        return ",".join(word for word in words if word not in named)
    return ",".join([*words, *(word for word in named if word not in words)])


def _broker_settings(call: KafkaCall) -> list[DescribedSetting]:
    """Return the settings that tools ask a broker for. The store keeps records durable, so every replica count is 1."""
    settings = call.gateway.settings
    told = {
        "auto.create.topics.enable": (BOOLEAN, "true" if settings.auto_create_topics else "false"),
        "broker.id": (INT, _own_id(call)),
        "default.replication.factor": (INT, "1"),
        "delete.topic.enable": (BOOLEAN, "true"),
        "log.cleanup.policy": (STRING, str(SETTINGS["cleanup.policy"].default)),
        "log.message.timestamp.type": (STRING, str(SETTINGS["message.timestamp.type"].default)),
        "log.retention.bytes": (LONG, str(SETTINGS["retention.bytes"].default)),
        "log.retention.ms": (LONG, str(SETTINGS["retention.ms"].default)),
        "message.max.bytes": (INT, str(settings.request_bytes_max)),
        "min.insync.replicas": (INT, "1"),
        "num.partitions": (INT, str(PARTITIONS_DEFAULT)),
        "offsets.topic.replication.factor": (INT, "1"),
        "transaction.state.log.replication.factor": (INT, "1"),
        "unclean.leader.election.enable": (BOOLEAN, "false"),
    }
    return [DescribedSetting(name, value, kind, value) for name, (kind, value) in told.items()]


def _own_id(call: KafkaCall) -> str:
    return str(node_id(call.gateway.settings.gateway_id))


def _describe(one: DescribedSetting, kind: int, *, with_synonyms: bool) -> dict[str, Any]:
    source = _STATIC_BROKER if kind == BROKER else _SET_BY_CALL[kind] if one.is_set else _DEFAULT
    synonyms = [{"name": one.name, "value": one.value, "source": source}]
    if source == _SET_BY_CALL.get(kind):
        synonyms.append({"name": one.name, "value": one.default, "source": _DEFAULT})
    return {
        "name": one.name,
        "value": one.value,
        "read_only": kind == BROKER,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": synonyms if with_synonyms else (),
        "config_type": one.type,
        "documentation": None,
    }


def _resources(request: Any) -> list[_Resource]:
    """Return the resources of the request, each once."""
    return [_Resource(one.resource_type, one.resource_name, one) for one in dict.fromkeys(request.resources)]


def _named(resources: list[_Resource], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [answer | _name(resource) for resource, answer in zip(resources, answers, strict=True)]


def _name(resource: _Resource) -> dict[str, Any]:
    return {"resource_type": resource.type, "resource_name": resource.name}


def _no_settings(resource_type: int) -> RequestRefused:
    if resource_type == BROKER:
        return _refused("A gateway reads its settings at start; they are not altered by a call.")
    return _refused(
        f"Resources of type {resource_type} have no settings here; topics (2), brokers (4) and share groups (32) have."
    )


def _refused(what: str) -> RequestRefused:
    return RequestRefused(what, code=ErrorCode.INVALID_REQUEST)
