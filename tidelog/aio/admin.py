"""``Admin`` for asyncio: topics, their settings and offsets, consumer groups, queues, access, schemas, and the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from tidelog import limits
from tidelog.admin import Admin as BlockingAdmin
from tidelog.aio.in_thread import in_thread
from tidelog.aio.schemas import Schemas
from tidelog.closing import AsyncClosing
from tidelog.http.credentials import ConnectionSettings
from tidelog.types.scheduled import ScheduledRecord

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _awaited(
    method: Callable[Concatenate[BlockingAdmin, _P], _T],
) -> Callable[Concatenate[Admin, _P], Coroutine[Any, Any, _T]]:
    """Wrap a blocking method as a coroutine. Cancelling the coroutine does not stop the call in its thread."""

    @wraps(method)
    async def call(self: Admin, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        return await asyncio.shield(in_thread(partial(method, self._admin, *arguments, **named)))

    return call


class Admin(AsyncClosing):
    """asyncio version of ``tidelog.Admin``.

    Cancelling a call does not undo its change: the change may have happened, or the thread still makes it.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        timeout_ms: float = limits.API_TIMEOUT_MS,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Create the client, as ``tidelog.Admin``."""
        self._admin = BlockingAdmin(
            bootstrap_servers, timeout_ms=timeout_ms, request_timeout_ms=request_timeout_ms, **connection
        )

    create_topic = _awaited(BlockingAdmin.create_topic)
    create_topics = _awaited(BlockingAdmin.create_topics)
    clone_topic = _awaited(BlockingAdmin.clone_topic)
    list_topics = _awaited(BlockingAdmin.list_topics)
    summarize_topics = _awaited(BlockingAdmin.summarize_topics)
    describe_topic = _awaited(BlockingAdmin.describe_topic)
    describe_topics = _awaited(BlockingAdmin.describe_topics)
    describe_configs = _awaited(BlockingAdmin.describe_configs)
    table_commits = _awaited(BlockingAdmin.table_commits)
    alter_topic = _awaited(BlockingAdmin.alter_topic)
    create_pin = _awaited(BlockingAdmin.create_pin)
    list_clones = _awaited(BlockingAdmin.list_clones)
    list_pins = _awaited(BlockingAdmin.list_pins)
    delete_pin = _awaited(BlockingAdmin.delete_pin)
    delete_topic = _awaited(BlockingAdmin.delete_topic)
    delete_topics = _awaited(BlockingAdmin.delete_topics)
    delete_records = _awaited(BlockingAdmin.delete_records)
    erase = _awaited(BlockingAdmin.erase)
    list_erasures = _awaited(BlockingAdmin.list_erasures)
    describe_erasure = _awaited(BlockingAdmin.describe_erasure)
    offsets = _awaited(BlockingAdmin.offsets)
    describe_scheduled = _awaited(BlockingAdmin.describe_scheduled)
    cancel_scheduled = _awaited(BlockingAdmin.cancel_scheduled)

    async def list_scheduled(self, topic: str) -> list[ScheduledRecord]:
        """Return what ``tidelog.Admin.list_scheduled`` yields, as one list."""
        return await asyncio.shield(in_thread(lambda: list(self._admin.list_scheduled(topic))))

    list_groups = _awaited(BlockingAdmin.list_groups)
    describe_group = _awaited(BlockingAdmin.describe_group)
    delete_group = _awaited(BlockingAdmin.delete_group)
    remove_group_member = _awaited(BlockingAdmin.remove_group_member)
    group_offsets = _awaited(BlockingAdmin.group_offsets)
    commit_group_offsets = _awaited(BlockingAdmin.commit_group_offsets)
    reset_group = _awaited(BlockingAdmin.reset_group)
    delete_group_offsets = _awaited(BlockingAdmin.delete_group_offsets)
    group_lag = _awaited(BlockingAdmin.group_lag)
    create_queue = _awaited(BlockingAdmin.create_queue)
    list_queues = _awaited(BlockingAdmin.list_queues)
    describe_queue = _awaited(BlockingAdmin.describe_queue)
    delete_queue = _awaited(BlockingAdmin.delete_queue)
    redrive_queue = _awaited(BlockingAdmin.redrive_queue)
    list_transactions = _awaited(BlockingAdmin.list_transactions)
    abort_transaction = _awaited(BlockingAdmin.abort_transaction)

    def schemas(self) -> Schemas:
        """Return the client of the schema registry, as ``tidelog.Admin.schemas``."""
        return Schemas(self._admin.schemas())

    cluster = _awaited(BlockingAdmin.cluster)
    whoami = _awaited(BlockingAdmin.whoami)
    create_token = _awaited(BlockingAdmin.create_token)
    list_tokens = _awaited(BlockingAdmin.list_tokens)
    rotate_token = _awaited(BlockingAdmin.rotate_token)
    revoke_token = _awaited(BlockingAdmin.revoke_token)
    create_share = _awaited(BlockingAdmin.create_share)
    list_shares = _awaited(BlockingAdmin.list_shares)
    delete_share = _awaited(BlockingAdmin.delete_share)
    list_roles = _awaited(BlockingAdmin.list_roles)
    put_role = _awaited(BlockingAdmin.put_role)
    delete_role = _awaited(BlockingAdmin.delete_role)
    add_acls = _awaited(BlockingAdmin.add_acls)
    list_acls = _awaited(BlockingAdmin.list_acls)
    delete_acls = _awaited(BlockingAdmin.delete_acls)
    test_access = _awaited(BlockingAdmin.test_access)
    list_quotas = _awaited(BlockingAdmin.list_quotas)
    describe_quota = _awaited(BlockingAdmin.describe_quota)
    set_quota = _awaited(BlockingAdmin.set_quota)
    store_credentials = _awaited(BlockingAdmin.store_credentials)
    close = _awaited(BlockingAdmin.close)
