"""Table of Tidelog's errors and Kafka's codes.

A retryable error has a code that Kafka's clients retry. An unknown outcome is ``REQUEST_TIMED_OUT``: an idempotent producer sends
again, other clients report it to their caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.problem import as_tidelog_error
from log_format.errors import ErrorCode, TidelogError, TopicReplaced

ERRORS: Final[Mapping[ErrorCode, KafkaError]] = MappingProxyType(
    {
        ErrorCode.INVALID_REQUEST: KafkaError.invalid_request,
        ErrorCode.INVALID_RECORD: KafkaError.invalid_record,
        ErrorCode.INVALID_TOPIC_NAME: KafkaError.invalid_topic_exception,
        ErrorCode.INVALID_CONFIG: KafkaError.invalid_config,
        ErrorCode.UNAUTHENTICATED: KafkaError.sasl_authentication_failed,
        ErrorCode.UNAUTHORIZED: KafkaError.cluster_authorization_failed,
        ErrorCode.NOT_FOUND: KafkaError.invalid_request,
        ErrorCode.UNKNOWN_TOPIC: KafkaError.unknown_topic_or_partition,
        ErrorCode.UNKNOWN_PARTITION: KafkaError.unknown_topic_or_partition,
        ErrorCode.UNKNOWN_GROUP: KafkaError.group_id_not_found,
        ErrorCode.UNKNOWN_MEMBER: KafkaError.unknown_member_id,
        ErrorCode.UNKNOWN_PRODUCER: KafkaError.unknown_producer_id,
        ErrorCode.UNKNOWN_QUEUE: KafkaError.group_id_not_found,
        ErrorCode.UNKNOWN_TRANSACTION: KafkaError.invalid_txn_state,
        ErrorCode.UNKNOWN_SCHEDULED: KafkaError.invalid_request,
        ErrorCode.UNKNOWN_TOKEN: KafkaError.resource_not_found,
        ErrorCode.UNKNOWN_ROLE: KafkaError.resource_not_found,
        ErrorCode.UNKNOWN_PIN: KafkaError.resource_not_found,
        ErrorCode.UNKNOWN_ERASURE: KafkaError.resource_not_found,
        ErrorCode.METHOD_NOT_ALLOWED: KafkaError.invalid_request,
        ErrorCode.NOT_ACCEPTABLE: KafkaError.invalid_request,
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: KafkaError.unsupported_compression_type,
        ErrorCode.TOPIC_ALREADY_EXISTS: KafkaError.topic_already_exists,
        ErrorCode.FENCED_PRODUCER: KafkaError.invalid_producer_epoch,
        ErrorCode.FENCED_MEMBER: KafkaError.fenced_instance_id,
        ErrorCode.STALE_GENERATION: KafkaError.illegal_generation,
        ErrorCode.TRANSACTION_NOT_OPEN: KafkaError.invalid_txn_state,
        ErrorCode.GROUP_NOT_EMPTY: KafkaError.non_empty_group,
        ErrorCode.NO_COMMITTED_OFFSET: KafkaError.invalid_request,
        ErrorCode.QUEUE_ALREADY_EXISTS: KafkaError.invalid_request,
        ErrorCode.LEASE_EXPIRED: KafkaError.invalid_request,
        ErrorCode.NO_DEAD_LETTER_TOPIC: KafkaError.invalid_request,
        ErrorCode.INCONSISTENT_ASSIGNOR: KafkaError.inconsistent_group_protocol,
        ErrorCode.ALREADY_DELIVERED: KafkaError.invalid_request,
        ErrorCode.AUTH_DISABLED: KafkaError.security_disabled,
        ErrorCode.VENDING_UNAVAILABLE: KafkaError.invalid_request,
        ErrorCode.PIN_ALREADY_EXISTS: KafkaError.invalid_request,
        ErrorCode.TOPIC_HAS_PINS: KafkaError.policy_violation,
        ErrorCode.VERSION_GONE: KafkaError.invalid_request,
        ErrorCode.SEQUENCE_OUT_OF_ORDER: KafkaError.out_of_order_sequence_number,
        ErrorCode.OFFSET_OUT_OF_RANGE: KafkaError.offset_out_of_range,
        ErrorCode.EXPECTED_OFFSET_MISMATCH: KafkaError.invalid_request,
        ErrorCode.REQUEST_TOO_LARGE: KafkaError.message_too_large,
        ErrorCode.RECORD_TOO_LARGE: KafkaError.message_too_large,
        ErrorCode.THROTTLED: KafkaError.throttling_quota_exceeded,
        ErrorCode.UNAVAILABLE: KafkaError.not_leader_or_follower,
        ErrorCode.OVERLOADED: KafkaError.not_leader_or_follower,
        ErrorCode.DRAINING: KafkaError.not_leader_or_follower,
        ErrorCode.CORRUPT_SEGMENT: KafkaError.kafka_storage_error,
        ErrorCode.UNSUPPORTED_TABLE: KafkaError.kafka_storage_error,
        ErrorCode.INTERNAL: KafkaError.unknown_server_error,
        ErrorCode.OUTCOME_UNKNOWN: KafkaError.request_timed_out,
    }
)

COORDINATOR: Final[Mapping[ErrorCode, KafkaError]] = MappingProxyType(
    {
        ErrorCode.UNAVAILABLE: KafkaError.coordinator_not_available,
        ErrorCode.OVERLOADED: KafkaError.coordinator_not_available,
        ErrorCode.DRAINING: KafkaError.not_coordinator,
        ErrorCode.OUTCOME_UNKNOWN: KafkaError.coordinator_not_available,
    }
)
"""Codes that differ for requests to a coordinator of groups or transactions: pass this table as ``special``."""

_UNAUTHORIZED: Final[Mapping[str, KafkaError]] = MappingProxyType(
    {
        "topic": KafkaError.topic_authorization_failed,
        "group": KafkaError.group_authorization_failed,
        "transactional_id": KafkaError.transactional_id_authorization_failed,
        "cluster": KafkaError.cluster_authorization_failed,
    }
)


def kafka_error(error: BaseException, special: Mapping[ErrorCode, KafkaError] = MappingProxyType({})) -> KafkaError:
    """Return Kafka's code. ``special`` has precedence. An unexpected error is ``UNKNOWN_SERVER_ERROR``; the caller logs it."""
    known: TidelogError = as_tidelog_error(error)
    if known.code in special:
        return special[known.code]
    if known.code is ErrorCode.UNAUTHORIZED:
        return _UNAUTHORIZED.get(known.fields.get("resource_type", ""), ERRORS[known.code])
    if isinstance(known, TopicReplaced):
        return KafkaError.not_leader_or_follower
    return ERRORS[known.code]
