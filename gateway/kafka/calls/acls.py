"""DescribeAcls, CreateAcls, DeleteAcls: the ACLs of ``/v1/access/acls`` in Kafka's words. Each needs Alter on the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from gateway.kafka.acl_codes import KafkaAcl, encode_acl, matches_filter, parse_acl
from gateway.kafka.administration import NO_ERROR, Right, administer, answer_each, error_fields
from gateway.kafka.call import Answer, KafkaCall
from log_format.access.acls import CLUSTER, Acl, Acls, entry_acls
from log_format.access.changes import AddAcls, DeleteAcls
from log_format.errors import ErrorCode, RequestRefused, TidelogError

ACLS_LISTED_MAX: Final = 10_000
"""Most ACLs in one answer, which has no continuation."""
_RIGHT: Final = Right("Alter", "cluster", CLUSTER)


async def describe_acls(call: KafkaCall, request: Any) -> Answer:
    """Answer with the ACLs that match the filter."""
    try:
        _check(call)
        acls = (await call.engine.access_table.fresh()).acls
        found = await asyncio.get_running_loop().run_in_executor(
            call.gateway.codec_pool, _select, acls, _filter(request)
        )
    except TidelogError as problem:
        return call.answer(resources=(), **error_fields(call, problem))
    return call.answer(resources=_by_resource(found), **NO_ERROR)


async def create_acls(call: KafkaCall, request: Any) -> Answer:
    """Add the valid ACLs in one decision."""
    answers: list[dict[str, Any]] = []
    good: list[Acl] = []
    for one in request.creations:
        try:
            good.append(parse_acl(_creation(one)))
            answers.append(NO_ERROR)
        except RequestRefused as refusal:
            answers.append(error_fields(call, refusal))
    try:
        _check(call)
        if good:
            await administer(call, _RIGHT, lambda: call.engine.access_table.decide(AddAcls(acls=tuple(good))))
    except TidelogError as problem:
        answers = [error_fields(call, problem) for _ in request.creations]
    return call.answer(results=answers)


async def delete_acls(call: KafkaCall, request: Any) -> Answer:
    """Delete the ACLs that match each filter."""

    async def deleted(one: Any) -> dict[str, Any]:
        asked = _filter(one)
        decision = DeleteAcls(matches=lambda acl: matches_filter(acl, asked))
        decided = await administer(call, _RIGHT, lambda: call.engine.access_table.decide(decision))
        return {"matching_acls": [NO_ERROR | _named(acl) for acl in decided.deleted]}

    try:
        _check(call)
    except TidelogError as problem:
        answers = [error_fields(call, problem) for _ in request.filters]
    else:
        answers = await answer_each(call, request.filters, deleted)
    return call.answer(filter_results=[{"matching_acls": ()} | answer for answer in answers])


def _check(call: KafkaCall) -> None:
    """Raise ``Unauthorized`` without Alter on the cluster; ``RequestRefused`` (``AUTH_DISABLED``) if rights are not enforced."""
    if not call.gateway.rights.enforced:
        said = "The gateway runs with auth=off: there are no ACLs, and every client may do everything."
        raise RequestRefused(said, code=ErrorCode.AUTH_DISABLED)
    call.require(*_RIGHT)


def _select(acls: Acls, asked: KafkaAcl) -> list[Acl]:
    found: list[Acl] = []
    for key, bits in acls.entries.items():
        found += [acl for acl in entry_acls(key, bits) if matches_filter(acl, asked)]
        if len(found) > ACLS_LISTED_MAX:
            raise RequestRefused(
                f"The filter names more than {ACLS_LISTED_MAX} ACLs: ask for fewer, or by /v1/access/acls."
            )
    return sorted(found, key=_resource)


def _resource(acl: Acl) -> tuple[str, str, str]:
    return acl.resource_type, acl.resource, acl.pattern


def _by_resource(acls: Iterable[Acl]) -> list[dict[str, Any]]:
    resources = []
    for _, of_one in groupby(acls, key=_resource):
        told = [_named(acl) for acl in of_one]
        resources.append(
            {name: told[0][name] for name in _OF_RESOURCE} | {"acls": [_has_principal(one) for one in told]}
        )
    return resources


_OF_RESOURCE: Final = ("resource_type", "resource_name", "pattern_type")


def _has_principal(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name not in _OF_RESOURCE}


def _named(acl: Acl) -> dict[str, Any]:
    told = encode_acl(acl)
    return {
        "resource_type": told.resource_type,
        "resource_name": told.resource,
        "pattern_type": told.pattern,
        "principal": told.principal,
        "host": told.host,
        "operation": told.operation,
        "permission_type": told.permission,
    }


def _creation(one: Any) -> KafkaAcl:
    return KafkaAcl(
        one.resource_type,
        one.resource_name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def _filter(one: Any) -> KafkaAcl:
    return KafkaAcl(
        one.resource_type_filter,
        one.resource_name_filter,
        one.pattern_type_filter,
        one.principal_filter,
        one.host_filter,
        one.operation,
        one.permission_type,
    )
