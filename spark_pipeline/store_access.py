"""The store and its readers in one of Spark's Python processes: opened once per store, and cached as long as the process lives.

Credentials come from where ``open_store`` looks: the process's environment (which ``register`` fills from Spark's
configuration), files, roles. They are never part of a plan.
"""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING, Final

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.journal.reader import JournalReader
from log_format.segments.reader import SegmentReader
from log_format.store import ObjectStore
from log_format.stores import open_store
from spark_pipeline.vended import VendedStore, open_vended

if TYPE_CHECKING:
    from log_format.schemas.columns.subject_readers import StoredReaders

_STORES_MAX = 16
"""Stores cached in one process, and topic logs cached on executors; a pipeline uses two or three."""
JOURNAL_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Decoded objects of journals cached in one process: some hundred flushes, which a task reads topic by topic."""


@functools.lru_cache(maxsize=_STORES_MAX)
def cached_store(uri: str | VendedStore) -> ObjectStore:
    """Return the store at ``uri``; Hadoop's ``s3a://`` means ``s3://``.

    Raises ``ValueError`` when it can't be opened; with vended credentials also ``StoreUnavailable``.
    """
    if isinstance(uri, VendedStore):
        return open_vended(uri)
    return open_store(f"s3://{uri.removeprefix('s3a://')}" if uri.startswith("s3a://") else uri, must_exist=True)


@functools.lru_cache(maxsize=_STORES_MAX)
def segment_reader(uri: str | VendedStore) -> SegmentReader:
    """Return the reader of the store's segments, with its cache of footers. Raises as ``cached_store``."""
    # Spark's worker collects garbage after every task; imported modules need not be scanned.
    gc.freeze()
    return SegmentReader(cached_store(uri))


@functools.lru_cache(maxsize=_STORES_MAX)
def journal_reader(uri: str | VendedStore) -> JournalReader:
    """Return the reader of the store's journals, with its cache of decoded objects. Raises as ``cached_store``."""
    return JournalReader(cached_store(uri), cache_bytes=JOURNAL_CACHE_BYTES)


@functools.lru_cache(maxsize=_STORES_MAX)
def stored_readers(uri: str | VendedStore) -> StoredReaders:
    """Return the readers of the schemas of the store's topics. Raises as ``cached_store``."""
    # Most processes need none of this, and every query starts at least one.
    from log_format.schemas.columns.subject_readers import StoredReaders  # noqa: PLC0415

    return StoredReaders(cached_store(uri), SystemClock())


@functools.lru_cache(maxsize=_STORES_MAX)
def topic_log(uri: str | VendedStore, topic: str) -> TopicLog:
    """Return the topic's log, not loaded yet, for executors that must find relocated records. Raises as ``cached_store``."""
    return TopicLog(cached_store(uri), topic, SystemClock())
