"""FindCoordinator, and the checks that every request to a group's coordinator begins with.

1. The coordinator is the gateway that owns the group, for HTTP and Kafka alike. Any other gateway answers NOT_COORDINATOR instead
   of forwarding the request, so that a client talks to the gateway that has its session.
2. Clients cannot ask an owner without a Kafka listener. In that case any gateway that is asked claims the group.

Source: KIP-699 (several keys in one request).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.calls.epochs import FencedEpoch, UnknownAssignor, UnreleasedInstance
from gateway.groups.classic.refusal import GroupFull, Rebalancing
from gateway.kafka.brokers import Broker, brokers_of, node_id
from gateway.kafka.call import Answer, KafkaCall
from gateway.kafka.errors import COORDINATOR, kafka_error
from gateway.tasks.parallel import run_parallel
from log_format.access.acls import Operation
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.groups.changes import CoordinatorFenced

GROUP, TRANSACTION, SHARE = 0, 1, 2
NAME_BYTES_MAX: Final = 255
CONCURRENT_NAMES_MAX: Final = 1_000
"""Groups or transactional ids of one request that are looked up concurrently."""
NO_OPERATIONS: Final = -(2**31)
"""Value of a group's authorized operations if the request did not ask for them."""
_GROUP_OPERATIONS: Final[tuple[tuple[int, Operation], ...]] = (
    (3, "Read"),
    (6, "Delete"),
    (8, "Describe"),
    (10, "Describe"),
    (11, "Alter"),
)
"""Kafka's bits of operations on a group, each with the Tidelog right that allows it."""
T = TypeVar("T")
_KEY_TYPES: Final = {GROUP: "group", TRANSACTION: "transactional_id"}


class NotCoordinator(BackOff):
    """Another gateway coordinates the group."""


class InvalidGroup(RequestRefused):
    """The group's name is invalid."""


_CODES: Final[Mapping[type[TidelogError], KafkaError]] = MappingProxyType(
    {
        CoordinatorFenced: KafkaError.not_coordinator,
        FencedEpoch: KafkaError.fenced_member_epoch,
        GroupFull: KafkaError.group_max_size_reached,
        InvalidGroup: KafkaError.invalid_group_id,
        NotCoordinator: KafkaError.not_coordinator,
        Rebalancing: KafkaError.rebalance_in_progress,
        UnknownAssignor: KafkaError.unsupported_assignor,
        UnreleasedInstance: KafkaError.unreleased_instance_id,
    }
)


def group_error(error: TidelogError, special: Mapping[ErrorCode, KafkaError] = MappingProxyType({})) -> KafkaError:
    """Return Kafka's code for a group coordinator's error. ``special`` has precedence, except over errors that have a class of
    their own in ``_CODES``."""
    return _CODES.get(type(error)) or kafka_error(error, {**COORDINATOR, **special})


def check_group(call: KafkaCall, group: str, operation: Operation) -> None:
    """Raise ``InvalidGroup`` for an invalid name, ``Unauthorized`` if the caller lacks the right, ``NotCoordinator`` if this
    gateway does not coordinate the group or drains."""
    if not is_name(group):
        raise InvalidGroup("A group's name has 1 to 255 bytes and no control characters.")
    call.require(operation, "group", group)
    if call.engine.draining or not is_coordinator(call, group):
        raise NotCoordinator(f"Another gateway coordinates group {group!r}.")


async def map_names(names: Sequence[T], apply: Callable[[T], Awaitable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Call ``apply`` on each distinct name, up to ``CONCURRENT_NAMES_MAX`` concurrently, and return the results in order. A
    name that is given twice has one result, so no answer is longer than what exists. Concurrent look-ups share reads of the
    store, so a request with very many names costs few reads."""
    return await run_parallel(apply, dict.fromkeys(names), limit=CONCURRENT_NAMES_MAX)


def is_name(text: str) -> bool:
    """Return whether the text is allowed as a group's name or as a name that clients give themselves."""
    return 0 < len(text.encode(errors="surrogatepass")) <= NAME_BYTES_MAX and text.isprintable()


def is_coordinator(call: KafkaCall, group: str) -> bool:
    """Return whether Kafka clients should use this gateway as the group's coordinator."""
    ownership = call.engine.groups.ownership
    if ownership.coordinates(group):
        return True
    owner = ownership.of_group(group)
    return owner is None or all(one.gateway_id != owner.id for one in _brokers(call))


def undescribed_group(name: str, error: TidelogError | None = None) -> dict[str, Any]:
    """Return the description of a consumer or share group that does not exist or cannot be described."""
    if isinstance(error, InvalidGroup):
        code = KafkaError.group_id_not_found
    else:
        code = KafkaError.none if error is None else group_error(error)
    return {
        "error_code": code,
        "error_message": None if error is None else error.detail,
        "group_id": name,
        "group_state": "Dead",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": (),
        "authorized_operations": NO_OPERATIONS,
    }


async def describe_each(
    call: KafkaCall,
    request: Any,
    names: Sequence[str],
    described: Callable[[KafkaCall, str], Awaitable[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Describe each group, with the caller's authorized operations if the request asks for them.

    Args:
        call: The request's call.
        request: The describe request.
        names: Names of the groups.
        described: Describes one group.

    Returns:
        The descriptions, in the order of ``names``.
    """
    groups = await map_names(names, partial(described, call))
    for one in groups if getattr(request, "include_authorized_operations", False) else ():
        if one["error_code"] is KafkaError.none:
            name = one["group_id"]
            allowed = [bit for bit, needed in _GROUP_OPERATIONS if call.allows(needed, "group", name)]
            one["authorized_operations"] = sum(1 << bit for bit in allowed)
    return groups


def milliseconds(duration: timedelta) -> int:
    """Return the duration in whole milliseconds."""
    return duration // timedelta(milliseconds=1)


async def find_coordinator(call: KafkaCall, request: Any) -> Answer:
    """Answer with the broker that coordinates each group or transactional id."""
    keys = getattr(request, "coordinator_keys", None)
    kind = getattr(request, "key_type", GROUP)
    if keys is None:
        return call.answer(**_find_node(call, kind, request.key))
    return call.answer(coordinators=[{"key": key, **_find_node(call, kind, key)} for key in keys])


def _find_node(call: KafkaCall, key_type: int, key: str) -> dict[str, Any]:
    nowhere = {"node_id": -1, "host": "", "port": -1}
    kind = _KEY_TYPES.get(key_type)
    if kind is None or not is_name(key):
        return {**nowhere, "error_code": KafkaError.invalid_request, "error_message": "There is no such coordinator."}
    try:
        call.require("Describe", kind, key)  # type: ignore[arg-type]
    except TidelogError as error:
        return {**nowhere, "error_code": group_error(error), "error_message": error.detail}
    broker = _owner(call, key) if key_type == GROUP else None
    own_id = call.gateway.settings.gateway_id
    broker = broker or Broker(node_id(own_id), own_id, call.advertised)
    return {
        "node_id": broker.node_id,
        "host": broker.address.host,
        "port": broker.address.port,
        "error_code": KafkaError.none,
        "error_message": None,
    }


def _owner(call: KafkaCall, group: str) -> Broker | None:
    ownership = call.engine.groups.ownership
    owner = None if ownership.coordinates(group) else ownership.of_group(group)
    return next((one for one in _brokers(call) if owner is not None and one.gateway_id == owner.id), None)


def _brokers(call: KafkaCall) -> list[Broker]:
    return brokers_of(call.gateway.membership.heartbeats(), call.gateway.settings.gateway_id)
