"""A topic's memory of producers and applied transactions, inside a checkpoint.

No Delta action has this memory. It is in the Parquet file's key-value metadata, which other readers ignore. A checkpoint without
it was written by another program. Then every producer id issued before it counts as forgotten, and every transaction that a
``txn`` names counts as applied.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from log_format.delta.actions import Commit
from log_format.journal.content import JOURNAL_TABLE_PROPERTY, decode_content
from log_format.journal.topics import NO_TOPICS, JournalTopics, decode_topics
from log_format.topic.applied_transactions import (
    NO_TRANSACTIONS,
    AppliedTransactions,
    decode_applied,
    rebuild_from_txns,
)
from log_format.topic.config import TopicConfig
from log_format.topic.producers import NO_PRODUCERS, Producers, decode_producers
from log_format.topic.stamped_requests import producers_after
from log_format.topic.state import DELETED_PROPERTY

PRODUCERS_KEY: Final = b"tidelog.producers"
"""Metadata key of ``Producers.encoded``, compressed with zlib and encoded as base64, since other readers need text."""
TRANSACTIONS_KEY: Final = b"tidelog.applied"
"""Metadata key of ``AppliedTransactions.encoded``, compressed and encoded in the same way."""
JOURNAL_KEY: Final = b"tidelog.journal"
"""Metadata key of ``JournalTopics.encoded``, compressed and encoded in the same way; only in a journal's checkpoint."""
KEYS: Final = (PRODUCERS_KEY, TRANSACTIONS_KEY, JOURNAL_KEY)
_CLOCKS_DIFFER_MS_MAX: Final = 60_000
"""Clock difference allowed for: an id counts as used before another program's checkpoint if issued up to this much later."""


class TopicMemory(NamedTuple):
    """The part of a topic's state that replaying actions alone does not give."""

    producers: Producers
    transactions: AppliedTransactions
    journal: JournalTopics = NO_TOPICS
    """Topics of a journal, if the table is a journal."""

    def after(self, commit: Commit, configuration: Mapping[str, str]) -> TopicMemory:
        """Return the memory after a commit to a topic with these table properties. Raises ``CorruptData``."""
        if configuration.get(DELETED_PROPERTY) == "true":
            return NO_MEMORY
        if configuration.get(JOURNAL_TABLE_PROPERTY) == "true":
            return self._replace(journal=decode_content(commit).apply_to(self.journal))
        transactions = self.transactions.after(commit)
        config = TopicConfig.from_properties(configuration)
        return TopicMemory(producers_after(commit, self.producers, config), transactions)


NO_MEMORY: Final = TopicMemory(NO_PRODUCERS, NO_TRANSACTIONS)


def add_memory(table: pa.Table, memory: TopicMemory) -> pa.Table:
    """Return the checkpoint's table with ``memory`` in its metadata."""
    metadata = {
        PRODUCERS_KEY: _compress(memory.producers.encoded()),
        TRANSACTIONS_KEY: _compress(memory.transactions.encoded()),
    }
    if memory.journal is not NO_TOPICS:
        metadata[JOURNAL_KEY] = _compress(memory.journal.encoded())
    return table.replace_schema_metadata(metadata)


def decode_memory(table: pa.Table) -> TopicMemory:
    """Return the memory in a checkpoint's table (``checkpoint.SCHEMA``). Raises ``ValueError`` if it is damaged."""
    metadata = table.schema.metadata or {}
    producers, transactions = metadata.get(PRODUCERS_KEY), metadata.get(TRANSACTIONS_KEY)
    journal = metadata.get(JOURNAL_KEY)
    return TopicMemory(
        _forgotten_producers(table) if producers is None else decode_producers(_decompress(producers)),
        rebuild_from_txns(_txns(table)) if transactions is None else decode_applied(_decompress(transactions)),
        NO_TOPICS if journal is None else decode_topics(_decompress(journal)),
    )


def _forgotten_producers(table: pa.Table) -> Producers:
    columns = (("add", "modificationTime"), ("txn", "lastUpdated"))
    times = [pc.max(pc.struct_field(table.column(action), name)).as_py() or 0 for action, name in columns]
    return Producers(NO_PRODUCERS.by_id, max(times) + _CLOCKS_DIFFER_MS_MAX)


def _txns(table: pa.Table) -> dict[str, int]:
    return {txn["appId"]: txn["version"] for txn in table.column("txn").drop_null().to_pylist()}


def _compress(data: bytes) -> bytes:
    return base64.b64encode(zlib.compress(data))


def _decompress(data: bytes) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(data, validate=True))
    except zlib.error as problem:
        raise ValueError(f"its memory of producers or transactions is damaged: {problem}") from problem
