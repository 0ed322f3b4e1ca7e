"""OffsetCommit, OffsetFetch, OffsetDelete: committed offsets of groups, for their members and for consumers without membership.

1. Commits of one connection are decided in the order of their arrival; a fetch sees the commits that came before it.
2. A commit is all or nothing over the partitions that exist and may be read; each of the other partitions has its own error.
3. While a transaction holds pending offsets of a partition, a fetch with ``require_stable`` is told to retry; other fetches get
   the offsets from before the transaction.
4. Offsets below 0 and leader epochs are stored and returned unchanged. Timestamps and retention are ignored: offsets are kept for
   7 days.

Source: KIP-211, KIP-447 (require_stable), KIP-496 (OffsetDelete), KIP-709 (several groups), KIP-848 (member epochs).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.bounds import METADATA_BYTES_MAX
from gateway.groups.calls.classic import Sender
from gateway.groups.classic.consumer_protocol import PROTOCOL_TYPE
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.offsets.committed import NextOffset, unknown_group
from gateway.groups.offsets.incarnations import Key
from gateway.kafka.administration import Right, administer
from gateway.kafka.call import Answer, KafkaCall, PendingAnswer, answer_concurrently
from gateway.kafka.calls.coordinator import check_group, group_error, map_names
from gateway.kafka.calls.group_topics import TopicIds
from log_format.access.acls import Operation
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.groups.changes import CommitOffsets
from log_format.groups.row import NO_EPOCH, OffsetRow

EPOCH_VERSION: Final = 9
"""First version of OffsetCommit in which a stale epoch has its own error code."""
GROUPS_VERSION: Final = 8
GROUP_ERROR_VERSION: Final = 2
ROW_BYTES: Final = 512
"""Estimated memory of a committed offset in an answer, without its metadata."""
_LAST: Final = "the connection's last commit of offsets"


class _Requested(NamedTuple):
    """A partition of a request. ``topic`` None: no topic has the id. ``topic_id`` None: the request names the topic by name."""

    topic: str | None
    entry: Any
    topic_id: UUID | None = None


async def offset_commit(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
    """Commit offsets of a member, or of an empty group."""
    try:
        check_group(call, request.group_id, "Read")
    except TidelogError as error:
        code = _commit_error(call, request, error)
        entries = [id(one) for topic in request.topics for one in topic.partitions]
        return _commit_answer(call, request, dict.fromkeys(entries, code))
    coordinated = call.engine.groups.coordinator.known(request.group_id)
    epoch = None if coordinated is None else coordinated.row.epoch
    asked = await _requested_partitions(call, request.topics)
    codes: dict[int, KafkaError] = {}
    try:
        codes = await _find_refusals(call, asked)
        wanted = [one for one in asked if id(one.entry) not in codes]
        if not wanted:  # claiming the group would already be a change
            return _commit_answer(call, request, codes)
        decision = await _decide(call, request, wanted, epoch)
        decision = _without_recreated(decision, asked, codes)
    except TidelogError as error:
        code = _commit_error(call, request, error)
        return _commit_answer(call, request, {id(one.entry): codes.get(id(one.entry), code) for one in asked})
    if not decision.offsets:
        return _commit_answer(call, request, codes)
    await call.session.check_connected()  # otherwise the client may have committed later offsets elsewhere
    deciding = asyncio.ensure_future(_commit(call, request, asked, decision, codes))
    call.session.state[_LAST] = deciding
    return PendingAnswer(deciding)


async def _commit(
    call: KafkaCall,
    request: Any,
    asked: Sequence[_Requested],
    decision: CommitOffsets,
    codes: Mapping[int, KafkaError],
) -> Answer:
    try:
        await call.engine.groups.committed.decide(decision)
        code = KafkaError.none
    except TidelogError as error:
        code = _commit_error(call, request, error)
    return _commit_answer(call, request, {id(one.entry): codes.get(id(one.entry), code) for one in asked})


async def _decide(call: KafkaCall, request: Any, asked: Sequence[_Requested], epoch: int | None) -> CommitOffsets:
    """Return the decision to commit. ``epoch``: the group's epoch when the request arrived, if this gateway coordinated the
    group then."""
    group, member_id = request.group_id, request.member_id or None
    generation = getattr(request, "generation_id_or_member_epoch", -1)
    if generation < 0:
        member_id = generation = None
    elif member_id is None:
        raise RequestRefused("A commit with a generation needs a member.", code=ErrorCode.UNKNOWN_MEMBER)
    else:
        instance_id = getattr(request, "group_instance_id", None)
        speaker = Sender(member_id=member_id, instance_id=instance_id, owner=call.owner)
        await call.engine.groups.check_commit(group, speaker, generation, call.reader)
    offsets = {
        (one.topic, one.entry.partition_index): NextOffset(
            topic=one.topic,
            partition=one.entry.partition_index,
            offset=one.entry.committed_offset,
            metadata=one.entry.committed_metadata or None,
            leader_epoch=getattr(one.entry, "committed_leader_epoch", NO_EPOCH),
        )
        for one in asked
        if one.topic is not None
    }
    if member_id is None:
        epoch = None
    return await call.engine.groups.committed.decision(
        group, list(offsets.values()), member_id, generation, epoch=epoch
    )


def _without_recreated(
    decision: CommitOffsets, asked: Sequence[_Requested], codes: dict[int, KafkaError]
) -> CommitOffsets:
    """Return the decision without topics that were recreated after they were looked up by id; add their errors to ``codes``."""
    ids = {row.topic: UUID(row.topic_id) for row in decision.offsets}
    anew = {one.topic for one in asked if one.topic in ids and one.topic_id not in (None, ids[one.topic])}
    for one in asked:
        if one.topic in anew:
            codes.setdefault(id(one.entry), KafkaError.unknown_topic_id)
    return replace(decision, offsets=tuple(row for row in decision.offsets if row.topic not in anew))


async def _find_refusals(call: KafkaCall, asked: Sequence[_Requested]) -> dict[int, KafkaError]:
    """Return the errors of single partitions, keyed by the ``id()`` of their entries. Raise ``BackOff``."""
    found: dict[int, KafkaError] = {}
    counts: dict[str, int | KafkaError] = {}
    for topic, entry, _ in asked:
        if topic is None:
            found[id(entry)] = KafkaError.unknown_topic_id
            continue
        if topic not in counts:
            counts[topic] = await _partition_count(call, topic)
        count = counts[topic]
        if isinstance(count, KafkaError):
            found[id(entry)] = count
        elif not 0 <= entry.partition_index < count:
            found[id(entry)] = KafkaError.unknown_topic_or_partition
        elif len((entry.committed_metadata or "").encode()) > METADATA_BYTES_MAX:
            found[id(entry)] = KafkaError.offset_metadata_too_large
    return found


async def _partition_count(call: KafkaCall, topic: str) -> int | KafkaError:
    try:
        call.require("Read", "topic", topic)
        _, state = await call.engine.groups.incarnations.existing(topic)
    except RequestRefused as refusal:
        return group_error(refusal)
    return state.partition_count


def _commit_error(call: KafkaCall, request: Any, error: TidelogError) -> KafkaError:
    if getattr(request, "generation_id_or_member_epoch", -1) < 0:
        special = {ErrorCode.STALE_GENERATION: KafkaError.unknown_member_id}
    elif call.version >= EPOCH_VERSION and not _is_classic(call, request.group_id, request.member_id):
        special = {ErrorCode.STALE_GENERATION: KafkaError.stale_member_epoch}
    else:
        special = {}
    return group_error(error, special)


def _is_classic(call: KafkaCall, group: str, member_id: str) -> bool:
    known = call.engine.groups.coordinator.known(group)
    return isinstance(known, ClassicGroup) or (known is not None and known.speaks_classic(member_id))


def _commit_answer(call: KafkaCall, request: Any, codes: Mapping[int, KafkaError]) -> Answer:
    return call.answer(
        topics=[
            {
                "name": getattr(topic, "name", ""),
                "topic_id": getattr(topic, "topic_id", None),
                "partitions": [
                    {"partition_index": one.partition_index, "error_code": codes.get(id(one), KafkaError.none)}
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    )


async def offset_fetch(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
    """Return committed offsets of the named partitions, or all of a group."""
    return PendingAnswer(_fetch(call, request, call.session.state.get(_LAST)))


async def _fetch(call: KafkaCall, request: Any, last: asyncio.Future[Answer] | None) -> Answer:
    if last is not None and not last.done():
        await asyncio.wait((last,))
    is_stable = getattr(request, "require_stable", False)
    if call.version >= GROUPS_VERSION:
        return call.answer(groups=await map_names(request.groups, partial(_answer_group, call, is_stable=is_stable)))
    found = await _answer_group(call, request, is_stable=is_stable)
    if call.version < GROUP_ERROR_VERSION and found["error_code"] is not KafkaError.none:
        found["topics"] = [
            _topic(call, one.name, None, [_no_offset(index, found["error_code"]) for index in one.partition_indexes])
            for one in request.topics or ()
        ]
    return call.answer(topics=found["topics"], error_code=found["error_code"])


class _GroupOffsets(NamedTuple):
    """A group's committed offsets. ``unstable``: partitions that a transaction has pending offsets of; the client has to
    retry."""

    rows: Mapping[Key, OffsetRow]
    unstable: frozenset[Key]

    def offset(self, key: Key) -> dict[str, Any]:
        """Return the partition's entry in the answer."""
        if key in self.unstable:
            return _no_offset(key[1], KafkaError.unstable_offset_commit)
        row = self.rows.get(key)
        return _no_offset(key[1], KafkaError.none) if row is None else _offset(row)


async def _answer_group(call: KafkaCall, asked: Any, *, is_stable: bool) -> dict[str, Any]:
    name = asked.group_id
    try:
        check_group(call, name, "Describe")
        epoch, member_id = getattr(asked, "member_epoch", -1), getattr(asked, "member_id", None)
        if member_id and epoch >= 0 and not _is_classic(call, name, member_id):
            await call.engine.groups.epochs.check(name, member_id, epoch, call.reader)
        known = await _look_up_offsets(call, name, asked, is_stable=is_stable)
        topics = await (_all_topics(call, known) if asked.topics is None else _named_topics(call, known, asked.topics))
    except TidelogError as error:
        special = {
            ErrorCode.STALE_GENERATION: KafkaError.stale_member_epoch,
            ErrorCode.UNAVAILABLE: KafkaError.coordinator_load_in_progress,
        }
        return {"group_id": name, "topics": (), "error_code": group_error(error, special)}
    return {"group_id": name, "topics": topics, "error_code": KafkaError.none}


async def _look_up_offsets(call: KafkaCall, group: str, asked: Any, *, is_stable: bool) -> _GroupOffsets:
    """Look up the requested offsets of the group, and reserve their memory for the answer."""
    keys: set[Key] | None = None
    if asked.topics is not None:
        names = [await _name(call, topic, "Describe") for topic in asked.topics]
        keys = {
            (name, index)
            for name, topic in zip(names, asked.topics, strict=True)
            for index in topic.partition_indexes
            if name is not None
        }
    rows, waiting = await call.engine.groups.committed.rows_of(group, keys)
    _reserve(call, rows.values())
    return _GroupOffsets(rows, waiting if is_stable else frozenset())


async def _all_topics(call: KafkaCall, known: _GroupOffsets) -> list[dict[str, Any]]:
    found: dict[str, list[Key]] = {}
    for key in known.rows:
        found.setdefault(key[0], []).append(key)
    ids = TopicIds(call)
    topic_ids = {topic: topic_id for topic_id, topic in (await ids.names(found)).items()}
    return [
        _topic(call, topic, topic_ids.get(topic), [known.offset(key) for key in keys])
        for topic, keys in found.items()
        if call.allows("Describe", "topic", topic)
    ]


async def _named_topics(call: KafkaCall, known: _GroupOffsets, topics: Iterable[Any]) -> list[dict[str, Any]]:
    names = [await _name(call, topic, "Describe") for topic in topics]
    found = []
    for name, topic in zip(names, topics, strict=True):
        code = KafkaError.unknown_topic_id if name is None else KafkaError.none
        if name is not None:
            code = _denial(call, "Describe", name)
        partitions = [
            known.offset((name or "", index)) if code is KafkaError.none else _no_offset(index, code)
            for index in topic.partition_indexes
        ]
        found.append(_topic(call, getattr(topic, "name", ""), getattr(topic, "topic_id", None), partitions))
    return found


def _reserve(call: KafkaCall, rows: Iterable[OffsetRow]) -> None:
    size_bytes = sum(ROW_BYTES + len(row.metadata or "") for row in rows)
    call.reservations.append(call.answer_memory.reserve(size_bytes))


def _topic(call: KafkaCall, name: str, topic_id: Any, partitions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ids = {"topic_id": topic_id} if call.version >= GROUPS_VERSION else {}
    return {"name": name, "partitions": partitions, **ids}


def _offset(row: OffsetRow) -> dict[str, Any]:
    assert row.offset is not None
    return {
        "partition_index": row.partition,
        "committed_offset": row.offset,
        "committed_leader_epoch": row.leader_epoch,
        "metadata": row.metadata or "",
        "error_code": KafkaError.none,
    }


def _no_offset(partition: int, code: KafkaError) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": code,
    }


@answer_concurrently
async def offset_delete(call: KafkaCall, request: Any) -> Answer:
    """Delete offsets of topics that no member subscribes to."""
    codes: dict[str, KafkaError] = {}
    groups, name = call.engine.groups, request.group_id
    try:
        check_group(call, name, "Delete")
        known = await groups.committed.now(name)
        if not known.exists:
            raise unknown_group(name)
        members = known.row.members if known.row is not None else ()
        classic = known.row.classic if known.row is not None else None
        if members and classic is not None and classic.protocol_type != PROTOCOL_TYPE:
            return call.answer(error_code=KafkaError.non_empty_group, topics=())
        subscribed = known.row.read_topics if known.row is not None else set()
        for topic in request.topics:
            if (code := _denial(call, "Read", topic.name)) is not KafkaError.none:
                codes[topic.name] = code
            elif topic.name in subscribed:
                codes[topic.name] = KafkaError.group_subscribed_to_topic
        keys = [
            (topic.name, one.partition_index)
            for topic in request.topics
            for one in topic.partitions
            if topic.name not in codes
        ]
        await administer(call, Right("Delete", "group", name), partial(groups.erase, name, keys))
    except TidelogError as error:
        return call.answer(error_code=group_error(error), topics=())
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": one.partition_index, "error_code": codes.get(topic.name, KafkaError.none)}
                for one in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return call.answer(error_code=KafkaError.none, topics=topics)


def _denial(call: KafkaCall, operation: Operation, topic: str) -> KafkaError:
    """Return the error if the caller lacks the right, which is then noted in the audit trail; else ``none``."""
    try:
        call.require(operation, "topic", topic)
    except TidelogError as error:
        return group_error(error)
    return KafkaError.none


async def _requested_partitions(call: KafkaCall, topics: Iterable[Any]) -> list[_Requested]:
    names = [(await _name(call, topic, "Read"), topic) for topic in topics]
    return [
        _Requested(name, entry, getattr(topic, "topic_id", None)) for name, topic in names for entry in topic.partitions
    ]


async def _name(call: KafkaCall, topic: Any, operation: Operation) -> str | None:
    name: str | None = getattr(topic, "name", None)
    if name is not None:
        return name
    try:
        return await call.known_topics.look_up_current(topic.topic_id, partial(call.allows, operation, "topic"))
    except BackOff:
        return None
