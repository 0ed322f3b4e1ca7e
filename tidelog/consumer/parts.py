"""Assembly of a consumer from its parts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.bodies.deserialize import Deserializers
from tidelog.bodies.encode import arrow_available
from tidelog.calls.groups import GroupCalls
from tidelog.calls.schemas import Schemas
from tidelog.consumer.assignment import Assignment
from tidelog.consumer.group_session import GroupSession
from tidelog.consumer.history import History
from tidelog.consumer.reader import Reader
from tidelog.consumer.settings import ConsumerSettings
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.schemas.typed_values import TypedValues


class ConsumerParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of one consumer."""

    transport: Transport
    group_transport: Transport
    """Transport of commits and of leaving, which still work while a poll is being aborted."""
    assignment: Assignment
    reader: Reader
    group: GroupSession | None
    """None for a consumer without a group."""
    history: History | None
    """None if the gateway serves all records."""
    deserializers: Deserializers
    typed: TypedValues | None
    """None for a consumer without a model."""


def assemble(
    servers: str | Sequence[str] | None, settings: ConsumerSettings, connection: ConnectionSettings
) -> ConsumerParts:
    """Create the parts of a consumer without connecting yet. Raises ``ValueError`` and ``TypeError`` as ``Consumer``."""
    timeout_ms = settings.request_timeout_ms
    transport = Transport(servers, request_timeout_ms=timeout_ms, accept_encoding=settings.compression, **connection)
    group_transport = Transport(servers, request_timeout_ms=timeout_ms, **connection)
    assignment = Assignment()
    group = None
    if settings.group is not None:
        group = GroupSession(GroupCalls(group_transport, settings.group), assignment, settings)
    history = None
    if settings.history == "auto" and arrow_available():
        ca_file = connection.get("ca_file")
        history = History(transport, store=settings.store, ca_file=ca_file, timeout_ms=timeout_ms)
    typed = None
    if settings.value is not None:
        typed = TypedValues(settings.value, Schemas(transport, settings.api_timeout_ms))
    of_values = settings.value_deserializer if typed is None else typed.value
    return ConsumerParts(
        transport=transport,
        group_transport=group_transport,
        assignment=assignment,
        reader=Reader(transport, assignment, settings, group=group, history=history),
        group=group,
        history=history,
        deserializers=Deserializers(settings.key_deserializer, of_values, settings.envelope),
        typed=typed,
    )
