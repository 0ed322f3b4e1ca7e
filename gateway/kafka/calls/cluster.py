"""DescribeCluster, DescribeLogDirs, ElectLeaders, ListPartitionReassignments: what tools ask a cluster of brokers.

Gateways lead no partitions and store none, so no election is needed and nothing is ever reassigned. The only log directory is the
store; it lists the bytes that each partition takes there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.administration import NO_ERROR, answer_each, error_fields
from gateway.kafka.call import Answer, KafkaCall
from gateway.kafka.calls.metadata import advertised_brokers, cluster_id, cluster_operations
from log_format.access.acls import CLUSTER
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.topic.state import TopicState

PARTITIONS_LISTED_MAX: Final = 100_000
"""Most partitions in one answer, which has no continuation."""
_TOPICS_PER_PAGE: Final = 500
_BROKERS: Final = 1
"""Endpoint type of brokers. The other type is controllers, which Tidelog does not have."""
_UNKNOWN_BYTES: Final = -1


async def describe_cluster(call: KafkaCall, request: Any) -> Answer:
    """Answer with the gateways as brokers. No right is needed, as over HTTP."""
    asks_for_brokers = getattr(request, "endpoint_type", _BROKERS) == _BROKERS
    brokers = advertised_brokers(call)
    error = NO_ERROR
    if not asks_for_brokers:
        said = "There are no controllers: every gateway answers every request."
        error = {"error_code": KafkaError.unsupported_endpoint_type, "error_message": said}
    return call.answer(
        **error,
        endpoint_type=_BROKERS,
        cluster_id=cluster_id(call),
        controller_id=brokers[0].node_id,
        brokers=[
            {
                "broker_id": one.node_id,
                "host": one.address.host,
                "port": one.address.port,
                "rack": one.zone,
                "is_fenced": False,
            }
            for one in (brokers if asks_for_brokers else ())
        ],
        cluster_authorized_operations=cluster_operations(call, request),
    )


async def describe_log_dirs(call: KafkaCall, request: Any) -> Answer:
    """Answer with the bytes that partitions take in the store."""
    try:
        call.require("Describe", "cluster", CLUSTER)
        topics = await _find_sizes(call, request.topics)
    except TidelogError as problem:
        return call.answer(error_code=error_fields(call, problem)["error_code"], results=())
    directory = {
        "error_code": KafkaError.none,
        "log_dir": call.gateway.store_uri,
        "topics": topics,
        "total_bytes": _UNKNOWN_BYTES,
        "usable_bytes": _UNKNOWN_BYTES,
    }
    return call.answer(error_code=KafkaError.none, results=[directory])


async def elect_leaders(call: KafkaCall, request: Any) -> Answer:
    """Answer that no election is needed."""
    try:
        call.require("Alter", "cluster", CLUSTER)
    except TidelogError as problem:
        return call.answer(error_code=error_fields(call, problem)["error_code"], replica_election_results=())
    said = "Every gateway serves every partition: there is nothing to elect."
    unneeded = {"error_code": KafkaError.election_not_needed, "error_message": said}
    return call.answer(
        error_code=KafkaError.none,
        replica_election_results=[
            {"topic": one.topic, "partition_result": [unneeded | {"partition_id": number} for number in one.partitions]}
            for one in request.topic_partitions or ()
        ],
    )


async def list_partition_reassignments(call: KafkaCall, _request: Any) -> Answer:
    """Answer that no partition is being reassigned."""
    return call.answer(topics=(), **NO_ERROR)


async def _find_sizes(call: KafkaCall, wanted: Any) -> list[dict[str, Any]]:
    """Return the partition sizes of the topics that are wanted and that the caller may describe; None: of all that the caller
    may."""
    if wanted is not None:
        named = {one.topic: frozenset(one.partitions) for one in wanted}

        async def sized(name: str) -> dict[str, Any]:
            call.require("Describe", "topic", name)
            return _sizes(await call.engine.administration.describe(name), named[name])

        answers = await answer_each(call, list(named), sized)
        return [
            one for one in answers if one.pop("error_code") is KafkaError.none and one.pop("error_message", "") is None
        ]
    found: list[dict[str, Any]] = []
    after: str | None = ""
    partitions = 0
    while after is not None:
        shown = call.gateway.rights.allowed_filter(call.caller, "Describe", "topic")
        page = await call.engine.administration.page("", after, _TOPICS_PER_PAGE, shown)
        partitions += sum(state.partition_count for state in page.topics)
        if partitions > PARTITIONS_LISTED_MAX:
            raise RequestRefused(
                "The topics have too many partitions for one answer: name topics in the request.",
                code=ErrorCode.INVALID_REQUEST,
            )
        found += [_sizes(state, range(state.partition_count)) for state in page.topics]
        after = page.next_after
    return found


def _sizes(state: TopicState, partitions: Iterable[int]) -> dict[str, Any]:
    return {
        "name": state.topic,
        "partitions": [
            {
                "partition_index": partition,
                "partition_size": state.manifest.size_bytes(partition),
                "offset_lag": 0,
                "is_future_key": False,
            }
            for partition in sorted(partitions)
            if 0 <= partition < state.partition_count
        ],
    }
