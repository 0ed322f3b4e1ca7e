"""The engine's bounds: how much it holds, how long it waits. Those that an operator may change come from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_format import limits
from log_format.journal.drain import DRAIN_BYTES_MAX

_MEBIBYTE: Final = 1024 * 1024

FLUSH_BYTES_CAP: Final = 32 * _MEBIBYTE
"""Bytes of records in one flush, whatever ``flush.bytes`` says: the flush is in memory several times while it is written."""

JOURNAL_FLUSH_BYTES: Final = 8 * _MEBIBYTE
"""Of all topics together after which a journal is flushed at once: the default of ``flush.bytes``."""

FLUSHES_AHEAD_MAX: Final = 4
"""Flushes of one topic that are under way, of which one commits: on S3 an upload takes several times as long as encoding."""

ENCODED_BESIDE_BYTES_MIN: Final = _MEBIBYTE
"""From so many bytes of records on a flush is encoded beside those before it: the threads' time is worth more than a flush that
gathers a little longer."""

FLUSH_BATCHES_CAP: Final = 4096
"""Requests in one flush: each costs a few microseconds when the segment is put together."""

FLUSH_REQUESTS_MIN: Final = 100
"""Fewer requests never end the wait for ``flush.ms``: a flush costs as much as a dozen of them."""

BATCHES_WAITING_MAX: Final = 16 * FLUSH_BATCHES_CAP
"""Requests to one topic that no flush has taken: each is a few objects beside its records, with ``acks=0`` too."""

TOPIC_BYTES: Final = 2_600
"""Memory of an open topic without producers, segments and partitions: measured, rounded up
(docs/decisions/044-many-topics.md)."""

PARTITION_STATE_BYTES: Final = 24
"""Memory of each of its partitions: three offsets."""

FETCH_LIST_PARTITIONS: Final = 64
"""A fetch of up to so many partitions is part of its connection's memory; longer lists are counted."""

FETCH_PARTITION_BYTES: Final = 600
"""Memory that a fetch takes for each partition that it names: where it is read from, its wake-up, its result."""

FETCH_LISTS_BYTES_MAX: Final = 8 * _MEBIBYTE
"""Memory for the long lists of all fetches: one with every partition of the largest topic fits."""

PARTITIONS_PER_STEP: Final = 128
"""Partitions that one request looks at before other requests get their turn."""

POLL_REST: Final = 4
"""A poll of a long list rests after a read, four times as long as the read took. A commit to one of many partitions must not make
it look through all each time."""

TOPIC_LOOKS_AT_ONCE: Final = 64
"""Topics of one fetch that are looked at side by side."""

COLD_RUNS_PER_READ_MAX: Final = 64
"""Runs that one read takes from the store: a partition of tiny flushes must not hold a request for minutes."""

READ_AHEAD_BYTES_MAX: Final = 16 * _MEBIBYTE
"""Decoded records of old segments kept for readers that go on. Part of the slack in the settings' sum."""

READ_AHEAD_PIECE_BYTES: Final = _MEBIBYTE
"""Bytes that a read of an old segment takes at least: about a row group, which is decoded as a whole anyway."""

READ_AHEAD_RECORDS: Final = 100_000
"""Records that it takes at least, where they are small."""

LOOKED_BYTES_MAX: Final = 64 * _MEBIBYTE
"""Bytes of records that a filter looks at for one answer (the contract's)."""

EVENTS_LOOKED_BYTES_MAX: Final = 8 * _MEBIBYTE
"""Bytes that it looks at before an event stream says how far it came."""

LOOK_STEP_BYTES: Final = _MEBIBYTE
"""Bytes that a filter looks at before other requests get their turn: a few milliseconds."""

LOOK_STEP_RECORDS: Final = 16_384
"""Records that it looks at before, where they are small."""

LOOK_RUN_BYTES: Final = 32 * 1024
"""What one run costs beside its bytes, in bytes looked at: a run of one record takes some 100 µs."""

LARGE_BODY_BYTES: Final = 256 * 1024
"""Bodies from this length on are read in turn: side by side each would get some memory and none of them enough."""

LARGE_BODY_WAIT_MS_MAX: Final = 10_000
"""How long such a body waits for its turn before the gateway refuses it (503, nothing happened)."""

LARGE_BODIES_WAITING_MAX: Final = 20_000
"""Bodies that wait for their turn; the number of connections is the smaller bound."""

SEQUENCE_WAIT_MS_MAX: Final = 5_000
"""How long an idempotent request waits for its predecessors (the contract's)."""

SEQUENCE_AHEAD_MAX: Final = 4
"""How far ahead of the producer's next request an idempotent request may be and still wait (the contract's)."""

PUTS_AT_ONCE: Final = 8
"""Batches of one Kafka request that are staged side by side for its transaction."""

ANSWER_WAIT_MS_MAX: Final = 10_000
"""How long a fetch waits for memory to hold its answer."""

LARGE_ANSWER_WAIT_MS_MAX: Final = 1_000
"""How long a fetch waits for a large answer's memory before it makes do with a small answer."""

SMALL_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of records in a small answer: the connection mostly takes their text at once, so it is not held."""

SMALL_ANSWER_RECORDS: Final = 500
"""Records in a small answer: each has text of its own."""

PING_MS: Final = 15_000
"""After so long a silence an event stream gets a comment (the contract's)."""

EVENTS_BYTES_MAX: Final = 64 * 1024
"""Bytes of records read at once for an event stream: what one slow reader holds."""

EVENTS_RECORDS_MAX: Final = 500
"""Records read at once for an event stream."""

LIST_LOADS_AT_ONCE: Final = 16
"""Topics loaded side by side while topics are listed."""

CHECKPOINT_RETRY_MS: Final = 30_000
"""Pause after a checkpoint that failed."""

LOOK_THREADS: Final = 8
"""Threads that look at logs: their requests are short, and apart from commits and from reads of records."""

LOAD_THREADS: Final = 8
"""Threads that read the commits of logs being loaded."""

SCHEDULED_THREADS: Final = 8
"""Threads that publish delayed records: what is due shall not wait for looks of requests."""

MAP_AHEAD: Final = 64
"""Commits read ahead of the one that is being applied."""

POOL_WAITING_MAX: Final = 2_048
"""Calls that wait for a thread of one pool; beyond it 503 ``OVERLOADED``."""


TAIL_CACHE_BYTES: Final = 22 * _MEBIBYTE
SCHEDULED_CACHE_BYTES: Final = 2 * _MEBIBYTE
JOURNAL_CACHE_BYTES: Final = 16 * _MEBIBYTE
FOOTER_CACHE_BYTES: Final = 7 * _MEBIBYTE
MANIFEST_BYTES: Final = 52 * _MEBIBYTE
GROUPS_BYTES: Final = 20 * _MEBIBYTE
QUEUES_BYTES: Final = 8 * _MEBIBYTE
ACCESS_BYTES: Final = 64 * _MEBIBYTE
IN_FLIGHT_BYTES: Final = 36 * _MEBIBYTE
"""Defaults of the settings of these names, which say what each bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBounds:
    """The bounds that an operator may change: bytes, counts of threads, counts of waiting polls. And those that a test may."""

    write_threads: int = 16
    read_threads: int = 8
    tail_cache_bytes_max: int = TAIL_CACHE_BYTES
    footer_cache_bytes_max: int = FOOTER_CACHE_BYTES
    manifest_bytes_max: int = MANIFEST_BYTES
    groups_bytes_max: int = GROUPS_BYTES
    queues_bytes_max: int = QUEUES_BYTES
    access_bytes_max: int = ACCESS_BYTES
    waiting_polls_max: int = 10_000
    request_bytes_max: int = limits.REQUEST_BYTES_MAX
    flush_requests: int = 500
    """So many requests do not wait any longer for ``flush.ms``: half of the connections. The other half can send meanwhile."""
    flush_savings_first_ms: int = 3_600_000
    """What a new topic or journal may spend at once on flushes that begin before ``flush.ms`` is over: an hour's. One that is
    opened may spend what was earned since it was last written to, so much at most. So it is with delayed records of a topic and
    the tables of groups and of queues."""
    flush_savings_max_ms: int = 86_400_000
    """The most that it saves: a day's."""
    large_bodies_bytes_max: int = IN_FLIGHT_BYTES * 3 // 4

    store_wait_ms_max: int = 10_000
    """How long a request waits for a look at a log, for records from the store, or for its turn to change a topic."""
    commit_wait_ms_max: int = 30_000
    """How long a request waits for a commit under way before the gateway answers that the outcome is unknown."""
    produce_wait_ms_max: int = 10_000
    """How long a request waits for its flush to begin, beyond ``flush.ms``. Then it is refused (503, nothing happened)."""
    log_poll_ms: int = 500
    """How often the log is looked at for other gateways' commits while a reader waits for records."""
    journal_poll_ms: int = 1_000
    """As ``log_poll_ms``, for all topics at a journal together."""
    own_look_ms: int = 300_000
    """How old the known table of a topic may be while its journal alone is looked at."""
    undrained_runs_max: int = 300_000
    """Runs of one journal that are not in the topics' tables: some 60 bytes of memory each, in the budget of manifests."""
    overtake_ms: int = limits.OVERTAKE_MS
    """How long a topic whose journal has closed its number is left to the gateway that changes it."""
    journals: bool = True
    """Whether topics may go to journals."""
    drain_bytes_max: int = DRAIN_BYTES_MAX
    """Stored bytes of a journal's objects that one drain takes."""
    journal_cache_bytes_max: int = JOURNAL_CACHE_BYTES
    """Decoded objects of journals that other gateways wrote."""
    scheduled_cache_bytes_max: int = SCHEDULED_CACHE_BYTES
    """Indexes of objects of delayed records."""
    due_notices_max: int = 20_000
    """Notices of one look for what is due: the others wait for the next."""
    checkpoint_interval_min: int = limits.CHECKPOINT_INTERVAL_MIN
    checkpoint_interval_max: int = limits.CHECKPOINT_INTERVAL_MAX
    table_files_min: int = 200
    """Live data files after which a system table is compacted."""
    topics_loaded_max: int = 12_000
    """Topics whose state is in memory; beyond it idle ones are forgotten, least recently used first. 10,000 quiet ones at
    journals fit into ``manifest_bytes_max``."""
    list_partitions_max: int = 20_000
    """Partitions described in one page of topics: a page with more ends early."""
    sequences_waiting_max: int = 4_096
    """Idempotent requests to one topic that wait for their predecessors; their bodies count as in flight too."""
    cold_read_ms_max: int = 2_000
    """For so long a fetch that has something to answer goes on to further runs, over all its partitions."""
    fetch_lists_bytes_max: int = FETCH_LISTS_BYTES_MAX
    fetch_lists_waiting_max: int = 4
    """Fetches with long lists that wait for others to end; the list of each is in memory already."""
    pending_offsets_ms_max: int = 5_000
    """How long a reader of offsets waits for a transaction's decision before it aborts it: a commit takes milliseconds."""
    sweep_pause_ms: int = 10_000
    """Between two looks for leftovers of transactions."""
    left_alone_ms: int = 15_000
    """How long a decided transaction is left to its deciding gateway, and a staged object to its staging one."""
    transaction_bytes_max: int = limits.TRANSACTION_BYTES_MAX
    kafka_transaction_bytes_max: int = limits.KAFKA_TRANSACTION_BYTES_MAX
    staged_names_max: int = 5_000
    """Staged objects that a Kafka client's decision names itself. Of more, or more than ``transaction_bytes_max``, it names an
    index."""
    transaction_piece_bytes: int = FLUSH_BYTES_CAP
    """About how many staged bytes of a large transaction become one segment: as many as a flush has."""
    large_wait_ms_max: int = 20_000
    """How long a call waits for a large transaction: less than Kafka's clients wait for an answer."""
    large_pause_ms: int = 500
    """The first pause between two tries of a step of it; each next one is longer by as much."""
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX
    segments_behind: int = 10_000
    """Segments of a topic that is behind: three quarters of an hour of flushes at the default ``flush.ms``. Maintenance merges
    them every minute or so."""


assert limits.PARTITION_COUNT_MAX * FETCH_PARTITION_BYTES <= FETCH_LISTS_BYTES_MAX - FETCH_LISTS_BYTES_MAX // 4
assert EVENTS_BYTES_MAX < FLUSH_BYTES_CAP
assert EngineBounds().cold_read_ms_max < EngineBounds().commit_wait_ms_max
