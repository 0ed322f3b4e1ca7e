"""The engine's bounds: how much it holds, and how long it waits. The settings give those that an operator may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_format import limits
from log_format.checkpoints.cloning import COPIES_AT_ONCE
from log_format.journal.drain import DRAIN_BYTES_MAX
from log_format.topic.state import TopicState

_MEBIBYTE: Final = 1024 * 1024

FLUSH_BYTES_CAP: Final = 32 * _MEBIBYTE
"""Bytes of records in one flush, whatever ``flush.bytes`` says: several copies of the flush are in memory while it is written."""

JOURNAL_FLUSH_BYTES: Final = 8 * _MEBIBYTE
"""Bytes of all topics of a journal after which it is flushed without waiting longer: the default of ``flush.bytes``."""

FLUSHES_AHEAD_MAX: Final = 4
"""Number of flushes of one topic under way, of which one commits: on S3 an upload takes several times as long as encoding."""

PARALLEL_ENCODE_BYTES_MIN: Final = _MEBIBYTE
"""Bytes of records from which a flush is encoded in parallel with the flushes before it. Smaller ones wait: the threads' time
is worth more than a flush that gathers requests a little longer."""

FLUSH_BATCHES_CAP: Final = 4096
"""Number of requests in one flush: each costs a few microseconds when the segment is put together."""

FLUSH_REQUESTS_MIN: Final = 100
"""Number of requests below which a flush always waits for ``flush.ms``: a flush costs as much as a dozen requests."""

BATCHES_WAITING_MAX: Final = 16 * FLUSH_BATCHES_CAP
"""Number of requests to one topic that no flush has taken: each is a few objects besides its records, with ``acks=0`` too."""

TOPIC_BYTES: Final = 2_800
"""Bytes of memory of an open topic without producers, segments and partitions: measured, with the room of hash tables that have
just grown (docs/decisions/044-many-topics.md)."""

PARTITION_STATE_BYTES: Final = 24
"""Bytes of memory of each partition of an open topic: three offsets."""

FETCH_LIST_PARTITIONS: Final = 64
"""Number of partitions up to which a fetch's list is part of its connection's memory; longer lists are counted."""

FETCH_PARTITION_BYTES: Final = 600
"""Bytes of memory that a fetch takes for each partition in it: where it is read from, its wake-up, its result."""

FETCH_LISTS_BYTES_MAX: Final = 8 * _MEBIBYTE
"""Bytes of memory for the long lists of all fetches: one list with every partition of the largest topic fits."""

PARTITIONS_PER_STEP: Final = 128
"""Number of partitions that one request looks at before the event loop serves other requests."""

POLL_REST_FACTOR: Final = 4
"""Pause of a poll of a long list after a read, in multiples of the read's duration. Otherwise a commit to one of many partitions
would make the poll look through all of them each time."""

PARALLEL_TOPIC_LOOKS_MAX: Final = 64
"""Number of topics of one fetch that are looked at in parallel."""

COLD_RUNS_PER_READ_MAX: Final = 64
"""Number of runs that one read takes from the store: a partition of tiny flushes must not hold a request for minutes."""

READ_AHEAD_BYTES_MAX: Final = 16 * _MEBIBYTE
"""Bytes of decoded records of old segments kept for readers that go on. Part of the slack in the settings' sum."""

READ_AHEAD_PIECE_BYTES: Final = _MEBIBYTE
"""Minimum bytes that a read of an old segment takes: about a row group, which is decoded as a whole anyway."""

READ_AHEAD_RECORDS: Final = 100_000
"""Minimum number of records that a read of an old segment takes, if they are small."""

LOOKED_BYTES_MAX: Final = 64 * _MEBIBYTE
"""Bytes of records that a filter looks at for one answer (part of the HTTP contract)."""

EVENTS_LOOKED_BYTES_MAX: Final = 8 * _MEBIBYTE
"""Bytes of records that a filter looks at before an event stream tells its position."""

LOOK_STEP_BYTES: Final = _MEBIBYTE
"""Bytes of records that a filter looks at before the event loop serves other requests: a few milliseconds."""

LOOK_STEP_RECORDS: Final = 16_384
"""Number of records that a filter looks at before the event loop serves other requests, if they are small."""

LOOK_RUN_BYTES: Final = 32 * 1024
"""Cost of one run besides its bytes, in bytes looked at: a run of one record takes some 100 µs."""

LARGE_BODY_BYTES: Final = 256 * 1024
"""Bytes from which request bodies are read one after another: in parallel each would get some memory and none of them
enough."""

LARGE_BODY_WAIT_MS_MAX: Final = 10_000
"""Time that a large body waits until it is read; then the gateway refuses it (503, nothing happened)."""

LARGE_BODIES_WAITING_MAX: Final = 20_000
"""Number of large bodies that may wait to be read; the number of connections is the smaller bound."""

SEQUENCE_WAIT_MS_MAX: Final = 5_000
"""Time that an idempotent request waits for its predecessors (part of the HTTP contract)."""

SEQUENCE_AHEAD_MAX: Final = 4
"""Distance from the producer's next sequence up to which an idempotent request waits (part of the HTTP contract)."""

PARALLEL_PUTS_MAX: Final = 8
"""Number of batches of one Kafka request that are staged in parallel for its transaction."""

ANSWER_WAIT_MS_MAX: Final = 10_000
"""Time that a fetch waits for memory to hold its answer."""

LARGE_ANSWER_WAIT_MS_MAX: Final = 1_000
"""Time that a fetch waits for a large answer's memory before it makes do with a small answer."""

SMALL_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of records in a small answer: the connection mostly takes their text immediately, so it is not held."""

SMALL_ANSWER_RECORDS: Final = 500
"""Number of records in a small answer: each has text of its own."""

PING_MS: Final = 15_000
"""Time of silence after which an event stream gets a comment (part of the HTTP contract)."""

EVENTS_BYTES_MAX: Final = 64 * 1024
"""Bytes of records that one read for an event stream takes: what one slow reader holds."""

EVENTS_RECORDS_MAX: Final = 500
"""Number of records that one read for an event stream takes."""

PARALLEL_LIST_LOADS_MAX: Final = 16
"""Number of topics loaded in parallel while topics or clones are listed."""

ARCHIVED_SEGMENTS_REWRITTEN_MAX: Final = 20_000
"""Most segments of a changed archive for which a gateway writes the checkpoint, some 3 MB; maintenance writes larger ones right
after it has changed the archive."""

CHECKPOINTS_LEFT_MAX: Final = 10
"""Number of checkpoints in a row that a gateway leaves to maintenance. Then it writes one itself, however large."""

CHECKPOINT_RETRY_MS: Final = 30_000
"""Pause after a failed checkpoint."""

LOOK_THREADS: Final = 8
"""Number of threads that look at logs: their requests are short, and separate from commits and from reads of records."""

LOAD_THREADS: Final = 8
"""Number of threads that read the commits of logs being loaded."""

SCHEMA_THREADS: Final = 2
"""Number of threads that parse and compare schemas: a hostile one takes seconds, and shall not hold up the next."""

SCHEDULED_THREADS: Final = 8
"""Number of threads that publish delayed records: due records shall not wait for requests' looks at logs."""

MAP_AHEAD: Final = 64
"""Number of commits read ahead of the one that is being applied."""

POOL_WAITING_MAX: Final = 2_048
"""Number of calls that wait for a thread of one pool; beyond it 503 ``OVERLOADED``."""


WRITE_THREADS: Final = 16
READ_THREADS: Final = 8
WAITING_POLLS: Final = 10_000
FLUSH_SAVINGS_FIRST_MS: Final = 3_600_000
FLUSH_SAVINGS_MS: Final = 24 * FLUSH_SAVINGS_FIRST_MS
TAIL_CACHE_BYTES: Final = 22 * _MEBIBYTE
SCHEDULED_CACHE_BYTES: Final = 2 * _MEBIBYTE
JOURNAL_CACHE_BYTES: Final = 16 * _MEBIBYTE
FOOTER_CACHE_BYTES: Final = 5 * _MEBIBYTE
MANIFEST_BYTES: Final = 54 * _MEBIBYTE
GROUPS_BYTES: Final = 20 * _MEBIBYTE
QUEUES_BYTES: Final = 8 * _MEBIBYTE
ACCESS_BYTES: Final = 64 * _MEBIBYTE
SCHEMAS_BYTES: Final = 64 * _MEBIBYTE
IN_FLIGHT_BYTES: Final = 36 * _MEBIBYTE
"""Defaults of the settings with these names; the settings say what each bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBounds:
    """The bounds that an operator may change (bytes, threads, waiting polls), and those that a test may change."""

    write_threads: int = WRITE_THREADS
    read_threads: int = READ_THREADS
    tail_cache_bytes_max: int = TAIL_CACHE_BYTES
    footer_cache_bytes_max: int = FOOTER_CACHE_BYTES
    manifest_bytes_max: int = MANIFEST_BYTES
    groups_bytes_max: int = GROUPS_BYTES
    queues_bytes_max: int = QUEUES_BYTES
    access_bytes_max: int = ACCESS_BYTES
    schemas_bytes_max: int = SCHEMAS_BYTES
    waiting_polls_max: int = WAITING_POLLS
    request_bytes_max: int = limits.REQUEST_BYTES_MAX
    flush_requests: int = 500
    """Number of requests that end the wait for ``flush.ms``: half of the connections, so that the other half can send
    meanwhile."""
    flush_savings_first_ms: int = FLUSH_SAVINGS_FIRST_MS
    """Savings of a new topic or journal for flushes that begin before ``flush.ms`` is over: an hour's. A queue that is opened has
    what was earned since it was last written to, at most this. The same holds for delayed records of a topic and for the
    tables of groups and queues."""
    flush_savings_max_ms: int = FLUSH_SAVINGS_MS
    """Maximum of these savings: a day's."""
    large_bodies_bytes_max: int = IN_FLIGHT_BYTES * 3 // 4

    store_wait_ms_max: int = 10_000
    """Time that a request waits for a look at a log, for records from the store, or until it may change a topic."""
    commit_wait_ms_max: int = 30_000
    """Time that a request waits for a commit under way before the gateway answers that the outcome is unknown."""
    produce_wait_ms_max: int = 10_000
    """Time that a request waits for its flush to begin, beyond ``flush.ms``. Then it is refused (503, nothing happened)."""
    log_poll_ms: int = 500
    """Interval of looks at the log for other gateways' commits while a reader waits for records."""
    journal_poll_ms: int = 1_000
    """Interval of looks at a journal, which serve all of its topics together."""
    own_look_ms: int = 300_000
    """Maximum age of a topic's table as known here while only its journal is looked at."""
    erasing_look_ms: int = 30_000
    """The same while the topic has a request to erase that is not carried out: for so long an erased value may be served."""
    undrained_runs_max: int = 300_000
    """Number of runs of one journal that are not in the topics' tables: some 60 bytes of memory each, in the budget of
    manifests."""
    overtake_ms: int = limits.OVERTAKE_MS
    """Time that a topic whose journal has closed its number is left to the gateway that changes it."""
    journals: bool = True
    """Whether topics may go to journals."""
    drain_bytes_max: int = DRAIN_BYTES_MAX
    """Stored bytes of a journal's objects that one drain takes."""
    journal_cache_bytes_max: int = JOURNAL_CACHE_BYTES
    """Bytes of decoded objects of journals that other gateways wrote."""
    scheduled_cache_bytes_max: int = SCHEDULED_CACHE_BYTES
    """Bytes of cached indexes of objects of delayed records."""
    due_notices_max: int = 20_000
    """Number of notices in one look for due records: the others wait for the next look."""
    checkpoint_interval_min: int = limits.CHECKPOINT_INTERVAL_MIN
    checkpoint_interval_max: int = limits.CHECKPOINT_INTERVAL_MAX
    table_files_min: int = 200
    """Number of live data files after which a system table is compacted."""
    topics_loaded_max: int = 12_000
    """Number of topics whose state is in memory; beyond it idle topics are dropped, least recently used first. 10,000 quiet ones
    at journals fit into ``manifest_bytes_max``."""
    list_partitions_max: int = 20_000
    """Number of partitions described in one page of topics: a page with more ends early."""
    sequences_waiting_max: int = 4_096
    """Number of idempotent requests to one topic that wait for their predecessors; their bodies count as in flight too."""
    cold_read_ms_max: int = 2_000
    """Time for which a fetch that has something to answer goes on to further runs, over all its partitions."""
    fetch_lists_bytes_max: int = FETCH_LISTS_BYTES_MAX
    fetch_lists_waiting_max: int = 4
    """Number of fetches with long lists that wait for others to end; the list of each is in memory already."""
    pending_offsets_ms_max: int = 5_000
    """Time that a reader of offsets waits for a transaction's decision before it aborts the transaction: a commit takes
    milliseconds."""
    sweep_pause_ms: int = 10_000
    """Pause between two looks for leftovers of transactions."""
    left_alone_ms: int = 15_000
    """Time that a decided transaction is left to its deciding gateway, and a staged object to the gateway that staged it."""
    transaction_bytes_max: int = limits.TRANSACTION_BYTES_MAX
    kafka_transaction_bytes_max: int = limits.KAFKA_TRANSACTION_BYTES_MAX
    staged_names_max: int = 5_000
    """Number of staged objects that a Kafka client's decision names itself. For more objects, or more than
    ``transaction_bytes_max``, it names an index."""
    transaction_piece_bytes: int = FLUSH_BYTES_CAP
    """Approximate number of staged bytes of a large transaction that become one segment: as many as a flush has."""
    large_wait_ms_max: int = 20_000
    """Time that a call waits for a large transaction: less than Kafka's clients wait for an answer."""
    large_pause_ms: int = 500
    """First pause between two tries of a step of a large transaction; each further pause is longer by as much."""
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX
    copies_at_once: int = COPIES_AT_ONCE
    """Number of files that a clone copies at the same time."""
    segments_behind: int = 10_000
    """Number of segments from which a topic is behind: three quarters of an hour of flushes at the default ``flush.ms``.
    Maintenance merges them every minute or so."""

    def table_look_ms(self, state: TopicState) -> int:
        """Return the maximum age of this topic's table as known here while only its journal is looked at."""
        return self.own_look_ms if all(one.is_rewritten for one in state.erasures) else self.erasing_look_ms


assert limits.PARTITION_COUNT_MAX * FETCH_PARTITION_BYTES <= FETCH_LISTS_BYTES_MAX - FETCH_LISTS_BYTES_MAX // 4
assert EVENTS_BYTES_MAX < FLUSH_BYTES_CAP
assert EngineBounds().cold_read_ms_max < EngineBounds().commit_wait_ms_max
