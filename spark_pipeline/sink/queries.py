"""Which producer a streaming query is in each topic, and the batch it was about to commit: one small object for each query.

A topic forgets a producer that it has not heard of for ``producer.id.expiration.ms`` (a day). Then it can't tell any more whether
the batch that was under way is in it. The object can, unless that very batch is what Spark repeats: every earlier one had ended
when it was written. So a query may rest as long as it likes, but one that was killed in the middle of a commit has to be
started again within that time; later it is refused rather than written twice.
"""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from log_format import layout
from log_format.clock import SystemClock
from log_format.cluster import load_cluster
from log_format.errors import CorruptData, ObjectMissing
from log_format.producer_id import PLAIN, issue
from log_format.store import ObjectStore

QUERIES: Final = f"{layout.SYSTEM}spark/queries/"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """``batch``: the newest that a commit was tried for; every earlier one is at its end. None: there was none."""

    producers: dict[str, str]
    """By topic."""
    batch: int | None = None


def new_producer_id(store: ObjectStore) -> str:
    """An id as gateways issue them. Raises ``StoreUnavailable``, ``CorruptData``."""
    cluster = load_cluster(store, _new_id)
    return issue(PLAIN, SystemClock().now_ms(), _new_id(), cluster.producer_key)


def known_query(store: ObjectStore, query_id: str) -> Query | None:
    """What is remembered of the query; None: it never wrote here. Raises ``StoreUnavailable``, ``CorruptData``."""
    key = f"{QUERIES}{query_id}.json"
    try:
        return msgspec.json.decode(store.get(key), type=Query)
    except ObjectMissing:
        return None
    except msgspec.DecodeError as problem:
        raise CorruptData(f"{key} can't be used: {problem}.", object=key) from problem


def remember(store: ObjectStore, query_id: str, query: Query) -> None:
    """Write down what the query is about to do. Raises ``StoreUnavailable``."""
    store.put(f"{QUERIES}{query_id}.json", msgspec.json.encode(query))


def _new_id() -> str:
    return uuid.uuid4().hex
