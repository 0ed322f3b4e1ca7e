"""Every bound of the format, with unit and reason. Relations between them are asserted at import."""

from __future__ import annotations

from typing import Final

TIMESTAMP_MS_MIN: Final = 0
TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last moment that Spark, Delta and Python's datetime all can name."""

TOPIC_NAME_CHARACTERS_MAX: Final = 249
"""Kafka's bound: a name with a partition number behind it still fits a file name."""

PARTITION_COUNT_MAX: Final = 10_000
"""Per topic. A flush that touches them all writes as many runs; state in memory is two integers each."""

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""Default of ``request_bytes_max``: what one request may bring, compressed and decompressed alike."""

RECORD_BYTES_DEFAULT: Final = 1024 * 1024
"""Default of ``max.message.bytes``, Kafka's."""

FETCH_RECORDS_MAX: Final = 100_000
"""Largest ``max_records`` of a fetch."""

FETCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest ``max_bytes`` of a fetch."""

FETCH_WAIT_MS_MAX: Final = 60_000
"""Largest ``max_wait_ms`` of a fetch."""

SESSION_TIMEOUT_MS_MIN: Final = 1_000
SESSION_TIMEOUT_MS_MAX: Final = 1_800_000
SESSION_TIMEOUT_MS_DEFAULT: Final = 45_000
"""Of a consumer group's members; Kafka's."""

HEADERS_PER_RECORD_MAX: Final = 65_536
"""Headers of one record that a gateway takes: records have a few, and who reads one holds all of its headers."""

HEADER_BYTES_MIN: Final = 16
"""What a header counts at least where sizes are limited: about what an empty one takes in memory and in a segment."""

HEADERS_FREE: Final = 8
"""So many headers of a record count their bytes only, however few those are."""

REPORTED_ERRORS_MAX: Final = 20
"""Entries in a problem's ``errors``: enough to mend a batch, few enough to read."""

FLUSH_MS_MAX: Final = 3_600_000
"""Largest ``flush.ms``: a request that waits an hour has been given up by every client."""

COMMIT_ATTEMPTS_MAX: Final = 20
"""Versions lost to other committers before the owner steps down: with one preferred owner even two in a row are rare."""

READ_BACK_ATTEMPTS_MAX: Final = 6
"""Rounds of reading back and writing again after a lost answer; the pauses between them are at most 1.6 seconds together."""

BACKOFF_FIRST_MS: Final = 50
"""First pause between rounds; doubles each time, with jitter."""

BACKOFF_LAST_MS: Final = 3_000
"""Longest pause between rounds."""

HEAD_TRUSTED_MS: Final = 30_000
"""How long a head seen in the log may be built upon without looking again: far below the time that log clean-up keeps
superseded commits, so that a committer that slept can't write a version whose commit was cleaned away."""

SEGMENT_AGE_MAX_MS: Final = 3_600_000
"""A segment uploaded longer ago is never committed: collectors of orphans wait much longer than this."""

ORPHAN_GRACE_MS: Final = 24 * 3_600_000
"""Younger objects that no commit names may still be on their way into one."""

DELETED_FILE_RETENTION_MS: Final = 24 * 3_600_000
"""Default of ``deleted.file.retention.ms``: how far a reader of the table may lag, or travel back."""

DELETED_FILE_RETENTION_MS_MAX: Final = 7 * 24 * 3_600_000
"""Largest ``deleted.file.retention.ms``: each removed segment is named by every checkpoint for so long."""

TOMBSTONE_MARGIN_MS: Final = 3_600_000
"""Checkpoints name a removed segment for ``deleted.file.retention.ms`` and so much longer: several rounds of collection. Not for
ever, since a busy topic's merges remove some 14,000 an hour. Without its tombstone a segment is an orphan."""

SYSTEM_TOMBSTONES_KEPT_MS: Final = 7 * 24 * 3_600_000
"""Checkpoints of the system tables name a removed file so long (Delta's ``delta.deletedFileRetentionDuration``): that is how
long maintenance may be away."""

LOG_KEPT_MS_MIN: Final = 3_600_000
"""Superseded commits are kept at least so long after the checkpoint that covers them."""

LOAD_ATTEMPTS_MAX: Final = 5
"""Times that loading starts again because clean-up deleted what was listed: once is rare, twice is a defect."""

LOAD_MS_MAX: Final = 1_200_000
"""A load that took longer starts again: log clean-up may have begun to delete behind the checkpoint that it started from."""

VERIFY_PROBLEMS_MAX: Final = 1_000
"""Problems that a verification of a topic reports: more than anybody reads, few enough to keep."""

CHECKPOINT_INTERVAL_MIN: Final = 100
"""Fewest commits between two checkpoints."""

CHECKPOINT_INTERVAL_MAX: Final = 500
"""Most commits between two checkpoints: bounds what a start-up replays."""

REMOVES_PER_COMMIT_MAX: Final = 10_000
"""Segments that one commit lets go of when records are deleted or expire: some 2 MB. Whoever commits or follows a log holds all
of a commit, as objects of several times its size; the rest goes by further commits."""

PROBED_COMMITS_MAX: Final = 2_000
"""Commits behind a hinted checkpoint that are probed for where listing a log costs all of it: of more, the hint is too old."""

PROBES_AT_ONCE: Final = 16
"""Versions asked for together then: the head is found by those that are missing, and a hole by those that are there behind it."""

assert CHECKPOINT_INTERVAL_MIN <= CHECKPOINT_INTERVAL_MAX
assert CHECKPOINT_INTERVAL_MAX * 2 <= PROBED_COMMITS_MAX
assert PROBED_COMMITS_MAX % PROBES_AT_ONCE == 0
assert RECORD_BYTES_DEFAULT <= REQUEST_BYTES_MAX
assert HEAD_TRUSTED_MS * 10 <= LOG_KEPT_MS_MIN
assert LOAD_MS_MAX * 2 <= LOG_KEPT_MS_MIN
assert SEGMENT_AGE_MAX_MS * 10 <= ORPHAN_GRACE_MS
assert DELETED_FILE_RETENTION_MS <= DELETED_FILE_RETENTION_MS_MAX

PRODUCERS_PER_TOPIC_MAX: Final = 16_384
"""Producers that a topic remembers; beyond it the least recently used is forgotten. One takes about 1 KiB of memory."""

PRODUCER_REQUESTS_REMEMBERED: Final = 5
"""Newest requests of a producer whose places are known again: as many as Kafka's clients have in flight at most."""

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Default of ``producer.id.expiration.ms``, Kafka's."""

TRANSACTION_TIMEOUT_MS_DEFAULT: Final = 60_000

TRANSACTION_TIMEOUT_MS_MIN: Final = 1_000
"""The contract's: less would be over before a slow store has staged anything."""

TRANSACTION_TIMEOUT_MS_MAX: Final = 900_000
"""Kafka's ``transaction.max.timeout.ms``: how long records may lie staged."""

TRANSACTION_REMEMBERED_MS: Final = 86_400_000
"""How long an ended transaction is remembered, so that a late question after its fate gets an answer (the contract's)."""

TRANSACTIONS_REMEMBERED_MAX: Final = 100_000
"""Transactions remembered; of more the longest ended are forgotten early."""

TRANSACTIONS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Memory that remembered transactions take in every gateway: some 10,000 of few partitions each. Of more the longest ended are
forgotten early, and while those that have not ended take so much none begins."""

TRANSACTIONAL_IDS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Memory that transactional ids take in every gateway: some 10,000. They are remembered for days, so past it new ones are
refused."""

TRANSACTION_PASSING_MS: Final = 60_000
"""How long an ended one is remembered that nobody can ask for: a request without a producer. Gateways that finish it at the same
time find it ended."""

TRANSACTIONAL_ID_REMEMBERED_MS: Final = 7 * 86_400_000
"""Kafka's ``transactional.id.expiration.ms``."""

NUMBERED_ID_REMEMBERED_MS: Final = 90 * 86_400_000
"""A transactional id that numbers its transactions is remembered so long: a query that was killed in the middle of a batch
may rest until then and still not write it twice."""

NUMBERED_IDS_MAX: Final = 10_000
"""Transactional ids that are remembered longer than others, for their numbers; of more the longest unused are forgotten. One
takes about 1 KiB of memory in every gateway."""

TRANSACTION_BYTES_MAX: Final = 64 * 1024 * 1024
"""Staged bytes of one transaction: they are in memory when it is committed."""

TRANSACTION_REQUESTS_MAX: Final = 1_000
"""Staged requests of one transaction: each is an object, all are named by the decision. One listing shows them."""

JOB_TOPIC_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Staged bytes of one topic in a transaction that a job commits by itself: whoever applies it holds them in memory, as one
segment. Gateways leave those above ``TRANSACTION_BYTES_MAX`` to the job and to maintenance."""

JOB_OBJECTS_MAX: Final = 10_000
"""Staged objects of a job's transaction: the decision names each, in some 80 bytes."""

assert TRANSACTION_TIMEOUT_MS_MAX < TRANSACTION_REMEMBERED_MS <= TRANSACTIONAL_ID_REMEMBERED_MS
assert TRANSACTIONAL_ID_REMEMBERED_MS < NUMBERED_ID_REMEMBERED_MS

TOPIC_OWNERS_MAX: Final = 64
"""Gateways that a topic's partitions may be spread over: each adds conflicts on the one version number."""

ROW_GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""Uncompressed bytes of records after which a run goes on in another row group (one record more may be inside): what a
reader decodes at once to get at one record."""

SEGMENT_WHOLE_BYTES_MAX: Final = 1024 * 1024
"""A segment up to this size is read in one request, footer and all, as long as its footer isn't known: a request costs more
than the transfer of so little."""

READ_SPAN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most stored bytes of adjacent row groups that one range request asks for, unless one row group alone is larger."""

FOOTER_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Default bound of a reader's cache of decoded footers; one of 8 row groups takes about 20 KiB."""

assert ROW_GROUP_BYTES_MAX <= READ_SPAN_BYTES_MAX

KEY_BYTES_MAX: Final = 900
"""Of an object's key, UTF-8. S3 allows 1,024 bytes; the rest is for the prefix of the store."""

KEY_NAME_BYTES_MAX: Final = 255
"""Of what stands between two slashes of a key: what the usual file systems allow."""

SEGMENT_PATH_BYTES_MAX: Final = 512
"""Of a segment's path in its table: with the longest topic's name before it still a key. Tidelog's own have 53."""

CLUSTER_BYTES_MAX: Final = 4 * 1024
"""Of ``system/cluster.json``, and of a ``_last_checkpoint``: a few members each."""

COMMIT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Of a commit: one of 10,000 partitions and as many removed segments has some 6 MB, offsets of a large group 16 MB. A committer
refuses to write a larger one, and a reader to read it."""

CHECKPOINT_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of a checkpoint: a busy topic's, with a week of removed segments, has some 100 MB."""

FOOTER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a segment's footer: one of 10,000 row groups has some 8 MB."""

assert REMOVES_PER_COMMIT_MAX * 1024 + PARTITION_COUNT_MAX * 1024 < COMMIT_BYTES_MAX

STORE_ATTEMPTS_MAX: Final = 8
"""Tries of one request to a store; with the pauses below the last comes after four seconds on average."""

STORE_PAUSE_FIRST_MS: Final = 100
"""Longest first pause between two tries; doubles each time."""

STORE_PAUSE_LAST_MS: Final = 3_000
"""Longest pause between two tries."""

STORE_RETRY_MS_MAX: Final = 15_000
"""No try begins later than this after the first. Less than clients wait, so that they get an answer."""

S3_CONNECTIONS: Final = 32
"""Default of requests that run at once over connections that are kept."""

S3_CONNECT_TIMEOUT_MS: Final = 3_000
"""Default: a server that is there accepts in milliseconds; one lost packet costs a second."""

S3_READ_TIMEOUT_MS: Final = 10_000
"""Default, between two pieces of an answer: S3's slowest answers to small requests take a few seconds."""

DIRECTORY_ATTEMPTS_MAX: Final = 100
"""How often a put makes its directory anew after a delete of the last object in it removed it."""

DIRECTORIES_REMEMBERED_MAX: Final = 128
"""Directories that a local store keeps open, one file descriptor each: those of some sixty topics."""

TEMPORARY_FILE_AGE_MAX_MS: Final = 3_600_000
"""An object in the making that was not touched for so long has lost its process: writing one takes seconds."""

assert len("topics//") + TOPIC_NAME_CHARACTERS_MAX + SEGMENT_PATH_BYTES_MAX <= KEY_BYTES_MAX
assert STORE_PAUSE_FIRST_MS <= STORE_PAUSE_LAST_MS <= STORE_RETRY_MS_MAX
assert (
    min(LOG_KEPT_MS_MIN, SEGMENT_AGE_MAX_MS) >= (STORE_RETRY_MS_MAX + S3_CONNECT_TIMEOUT_MS + S3_READ_TIMEOUT_MS) * 10
)
