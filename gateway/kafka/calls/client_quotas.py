"""DescribeClientQuotas, AlterClientQuotas: the byte rates of users, as in ``/v1/access/quotas``. Each needs Alter on the cluster.

Kafka's quotas apply to each broker, Tidelog's to all gateways together. Of Kafka's entities only users and the default user are
supported. Kafka's other rates have no counterpart here; quotas that Kafka does not have are neither listed nor changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from gateway.http.access_fields import USER, is_principal
from gateway.kafka.administration import NO_ERROR, Right, administer, answer_each, error_fields
from gateway.kafka.call import Answer, KafkaCall
from log_format.access.acls import CLUSTER, EVERY
from log_format.access.changes import PutQuota
from log_format.access.row import QuotaRow
from log_format.errors import ErrorCode, RequestRefused, TidelogError

RATES: Final[Mapping[str, str]] = MappingProxyType(
    {"producer_byte_rate": "produce_bytes_per_s", "consumer_byte_rate": "fetch_bytes_per_s"}
)
"""Tidelog's names of quotas by Kafka's names."""
QUOTA_MAX: Final = 10**12
ENTRIES_LISTED_MAX: Final = 10_000
_DEFAULT, _ANY = 1, 2
_RIGHT: Final = Right("Alter", "cluster", CLUSTER)
_AUTH_OFF: Final = "The gateway runs with auth=off: there are no quotas."


async def describe_client_quotas(call: KafkaCall, request: Any) -> Answer:
    """Answer with the user quotas that match the filter."""
    try:
        if not call.gateway.rights.enforced:
            return call.answer(entries=(), **NO_ERROR)  # as a broker that has no quotas
        _check(call)
        rows = (await call.engine.access_table.fresh()).quotas
        entries = [_entry(row) for row in _select(rows, request.components)]
        if len(entries) > ENTRIES_LISTED_MAX:
            raise _refused(f"The filter names more than {ENTRIES_LISTED_MAX} quotas: ask by /v1/access/quotas.")
    except TidelogError as problem:
        return call.answer(entries=None, **error_fields(call, problem))
    return call.answer(entries=[one for one in entries if one["values"]], **NO_ERROR)


async def alter_client_quotas(call: KafkaCall, request: Any) -> Answer:
    """Set and remove rates of users; rates that the request does not name are kept."""

    async def altered(entry: Any) -> dict[str, Any]:
        _check(call)
        principal, changes = _principal(entry.entity), _changes(entry.ops)
        now = (await call.engine.access_table.fresh()).quotas.get(principal) or QuotaRow(principal=principal)
        row = msgspec.structs.replace(now, **changes)
        if not request.validate_only:
            await administer(call, _RIGHT, lambda: call.engine.access_table.decide(PutQuota(row=row)))
        return {}

    answers = await answer_each(call, request.entries, altered)
    named = zip(request.entries, answers, strict=True)
    return call.answer(
        entries=[
            answer
            | {"entity": [{"entity_type": one.entity_type, "entity_name": one.entity_name} for one in entry.entity]}
            for entry, answer in named
        ]
    )


async def describe_user_scram_credentials(call: KafkaCall, _request: Any) -> Answer:
    """Answer that there are no SCRAM credentials: ``kafka-configs --entity-type users`` asks for them."""
    return call.answer(results=(), **NO_ERROR)


def _check(call: KafkaCall) -> None:
    """Raise ``Unauthorized`` without Alter on the cluster; ``RequestRefused`` (``AUTH_DISABLED``) if rights are not enforced."""
    if not call.gateway.rights.enforced:
        raise RequestRefused(_AUTH_OFF, code=ErrorCode.AUTH_DISABLED)
    call.require(*_RIGHT)


def _select(rows: Mapping[str, QuotaRow], components: Any) -> Iterator[QuotaRow]:
    if any(one.entity_type != "user" for one in components):
        return
    for principal in sorted(rows):
        if all(_matches(principal, one) for one in components):
            yield rows[principal]


def _matches(principal: str, component: Any) -> bool:
    if component.match_type == _DEFAULT:
        return principal == EVERY
    return component.match_type == _ANY or principal == f"{USER}{component.match}"


def _entry(row: QuotaRow) -> dict[str, Any]:
    rates = ((name, getattr(row, own)) for name, own in RATES.items())
    name = None if row.principal == EVERY else row.principal.removeprefix(USER)
    return {
        "entity": [{"entity_type": "user", "entity_name": name}],
        "values": [{"key": key, "value": float(value)} for key, value in rates if value is not None],
    }


def _principal(entity: Any) -> str:
    if len(entity) != 1 or entity[0].entity_type != "user":
        raise _refused("Quotas are of users: no client ids, no addresses.")
    name = entity[0].entity_name
    if name is None:
        return EVERY
    if not is_principal(f"{USER}{name}", USER):
        raise _refused("The user has no name, or a strange one.")
    return f"{USER}{name}"


def _changes(operations: Any) -> dict[str, int | None]:
    changes: dict[str, int | None] = {}
    for one in operations:
        if one.key not in RATES:
            raise _refused(f"{one.key!r} is no quota here; {', '.join(RATES)} are.")
        if not one.remove and not 1 <= one.value <= QUOTA_MAX:
            raise _refused(f"{one.key} must be from 1 to {QUOTA_MAX}.")
        changes[RATES[one.key]] = None if one.remove else int(one.value)
    return changes


def _refused(what: str) -> RequestRefused:
    return RequestRefused(what, code=ErrorCode.INVALID_REQUEST)
