"""Settlement of acquired records by ShareFetch and ShareAcknowledge: accepted, released, rejected, renewed.

1. A partition's acknowledgements are refused as a whole if they are malformed, or name an offset that the session does not have.
   If only some locks of a partition have expired, the other records are settled, and the answer is ``INVALID_RECORD_STATE``.
2. A gap (an offset without a record) is accepted.

Source: KIP-932; KIP-1222 (renewal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import KafkaCall
from gateway.kafka.errors import COORDINATOR, kafka_error
from gateway.kafka.shares.sessions import AcquiredRange, Partition, ShareSession
from gateway.queues.bounds import SETTLEMENTS_MAX
from gateway.queues.settlement import EXPIRED, Result, Settlement
from log_format.errors import TidelogError

RENEW: Final = 4
_ACTIONS: Final = ("accept", "accept", "release", "reject", "renew")
"""Actions by Kafka's numbers; 0 is a gap."""
Acknowledgements = Mapping[Partition, Sequence[Any]]
"""The request's acknowledgement batches by partition."""


class InvalidAcknowledgements(Exception):
    """The client's batches are malformed."""


class _RequestedSettlement(NamedTuple):
    key: Partition
    topic: str
    range: AcquiredRange
    action: str


def acknowledgements_of(topics: Iterable[Any]) -> dict[Partition, Sequence[Any]]:
    """Return the acknowledgement batches of a request by partition."""
    return {
        (topic.topic_id, one.partition_index): one.acknowledgement_batches
        for topic in topics
        for one in topic.partitions
        if one.acknowledgement_batches
    }


def renews(acknowledged: Acknowledgements) -> bool:
    """Return whether any record's lock is to be renewed."""
    return any(RENEW in batch.acknowledge_types for batches in acknowledged.values() for batch in batches)


async def settle(call: KafkaCall, session: ShareSession, acknowledged: Acknowledgements) -> dict[Partition, KafkaError]:
    """Settle the acknowledgements, and return the resulting code of each partition."""
    codes: dict[Partition, KafkaError] = {}
    wishes: list[_RequestedSettlement] = []
    for key, batches in acknowledged.items():
        try:
            some = _requested_settlements(call, session, key, batches)
        except InvalidAcknowledgements:
            codes[key] = KafkaError.invalid_request
        except TidelogError as error:
            codes[key] = kafka_error(error)
        else:
            codes[key] = KafkaError.none if some else KafkaError.invalid_record_state
            wishes += some
    for start in range(0, len(wishes), SETTLEMENTS_MAX):
        some = wishes[start : start + SETTLEMENTS_MAX]
        try:
            results = await call.shares.queues.settle(session.group, [_settlement(one) for one in some])
        except TidelogError as error:
            codes |= dict.fromkeys((one.key for one in wishes[start:]), kafka_error(error, COORDINATOR))
            break
        for wish, result in zip(some, results, strict=True):
            if not result.is_settled:
                codes[wish.key] = KafkaError.invalid_record_state
        _update_session(call, session, some, results)
    return codes


def _requested_settlements(
    call: KafkaCall, session: ShareSession, key: Partition, batches: Sequence[Any]
) -> list[_RequestedSettlement]:
    """Return the settlements that a partition's batches ask for; empty if the session does not have all their offsets. Raise
    ``InvalidAcknowledgements``, ``Unauthorized``, ``BackOff``."""
    runs = list(_runs(batches))
    acquired = session.acquired.get(key)
    if acquired is None:
        return []
    call.require("Read", "topic", acquired.topic)
    wishes: list[_RequestedSettlement] = []
    for first, last, kind in runs:
        pieces = acquired.split(first, last)
        if pieces is None:
            return []
        wishes += [_RequestedSettlement(key, acquired.topic, piece, _ACTIONS[kind]) for piece in pieces]
    return wishes


def _runs(batches: Sequence[Any]) -> Iterator[tuple[int, int, int]]:
    """Yield the first offset, the last offset and the type of each run of equal types. Raise ``InvalidAcknowledgements``."""
    end = -1
    for batch in batches:
        first, last, kinds = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not end < first <= last or len(kinds) not in (1, last - first + 1):
            raise InvalidAcknowledgements
        if not all(0 <= kind < len(_ACTIONS) for kind in kinds):
            raise InvalidAcknowledgements
        end = last
        if len(kinds) == 1:
            yield first, last, kinds[0]
            continue
        for kind, some in groupby(kinds):
            count = sum(1 for _ in some)
            yield first, first + count - 1, kind
            first += count


def _settlement(wish: _RequestedSettlement) -> Settlement:
    return Settlement(
        topic=wish.topic,
        partition=wish.key[1],
        first=wish.range.first,
        last=wish.range.last,
        lease=wish.range.lease,
        action=wish.action,
    )


def _update_session(
    call: KafkaCall, session: ShareSession, wishes: Sequence[_RequestedSettlement], results: Sequence[Result]
) -> None:
    """Update the session: remove records that were settled or whose locks expired, and extend the locks that were renewed."""
    later_ms = call.engine.clock.monotonic_ms() - call.engine.clock.now_ms()
    both = zip(wishes, results, strict=True)
    for key, some in groupby(both, key=lambda one: one[0].key):
        dropped, renewed = list[AcquiredRange](), list[AcquiredRange]()
        for wish, result in some:
            if wish.action == "renew" and result.locked_until_ms is not None:
                renewed.append(wish.range._replace(until_ms=result.locked_until_ms + later_ms))
            elif wish.action != "renew" or result == EXPIRED:
                dropped.append(wish.range)
        call.session.shares.update_acquired(session, key, dropped, renewed)
