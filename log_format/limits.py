"""Every bound of the format, with unit and reason. Relations between them are asserted at import."""

from __future__ import annotations

from typing import Final

TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""Largest timestamp, 9999-12-31T23:59:59.999Z: the last moment that Spark, Delta and Python's datetime can all represent."""

TOPIC_NAME_CHARACTERS_MAX: Final = 249
"""Kafka's bound: the name and a partition number still fit a file name."""

PARTITION_COUNT_MAX: Final = 10_000
"""Most partitions of a topic. A flush to all of them writes as many runs; in memory a partition's state is two integers."""

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""Default of ``request_bytes_max``: the size of one request, compressed and decompressed alike."""

RECORD_BYTES_DEFAULT: Final = 1024 * 1024
"""Default of ``max.message.bytes``, Kafka's."""

FETCH_RECORDS_MAX: Final = 100_000
"""Largest ``max_records`` of a fetch."""

FETCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest ``max_bytes`` of a fetch."""

FETCH_WAIT_MS_MAX: Final = 60_000
"""Largest ``max_wait_ms`` of a fetch."""

SESSION_TIMEOUT_MS_MIN: Final = 1_000
"""Smallest ``session_timeout_ms`` of a group's member (docs/http-api.md, section 7)."""

SESSION_TIMEOUT_MS_MAX: Final = 1_800_000
"""Largest ``session_timeout_ms``, Kafka's ``group.max.session.timeout.ms``: a dead member keeps its partitions so long."""

SESSION_TIMEOUT_MS_DEFAULT: Final = 45_000
"""Default of ``session_timeout_ms``, Kafka's."""

HEADERS_PER_RECORD_MAX: Final = 65_536
"""Most headers of one record that a gateway accepts. Records have few, and a reader of one has all its headers in memory."""

HEADER_BYTES_MIN: Final = 16
"""Least size that a header counts in limits: about what an empty one takes in memory and in a segment."""

HEADERS_FREE: Final = 8
"""Number of first headers of a record that count only their own bytes."""

REPORTED_ERRORS_MAX: Final = 20
"""Most entries in a problem's ``errors``: enough to correct a batch, few enough to read."""

FLUSH_MS_MAX: Final = 3_600_000
"""Largest ``flush.ms``: every client gives up a request within an hour."""

COMMIT_ATTEMPTS_MAX: Final = 20
"""Versions lost in a row to other committers before a commit fails. With one preferred owner even two are rare."""

READ_BACK_ATTEMPTS_MAX: Final = 6
"""Rounds of reading back and writing again after a lost answer. Their pauses add up to at most 1.6 seconds."""

BACKOFF_FIRST_MS: Final = 50
"""First pause between rounds; doubles each time, with jitter."""

BACKOFF_LAST_MS: Final = 3_000
"""Longest pause between rounds."""

HEAD_TRUSTED_MS: Final = 30_000
"""How long a committer builds on a head without checking it again. Log clean-up keeps superseded commits far longer, so a
committer that slept can't write a version whose commit was cleaned away."""

SEGMENT_AGE_MAX_MS: Final = 3_600_000
"""Age from which an uploaded segment is never committed. Maintenance deletes orphans only much later."""

ORPHAN_GRACE_MS: Final = 24 * 3_600_000
"""Age below which an object that no commit names is kept, since it may still be about to be committed."""

DELETED_FILE_RETENTION_MS: Final = 24 * 3_600_000
"""Default of ``deleted.file.retention.ms``: how far a reader of the table may lag, or go back in time."""

DELETED_FILE_RETENTION_MS_MAX: Final = 7 * 24 * 3_600_000
"""Largest ``deleted.file.retention.ms``, for which every checkpoint may name each removed segment."""

TOMBSTONE_MARGIN_MS: Final = 3_600_000
"""Time for which checkpoints name a removed segment after ``deleted.file.retention.ms``: several rounds of collection, since
without its tombstone a segment is an orphan. It is limited, since a busy topic's merges remove some 14,000 an hour."""

SYSTEM_TOMBSTONES_KEPT_MS: Final = 7 * 24 * 3_600_000
"""How long checkpoints of the system tables name a removed file (Delta's ``delta.deletedFileRetentionDuration``). Maintenance may
pause for that long."""

LOG_KEPT_MS_MIN: Final = 3_600_000
"""Least time for which superseded commits are kept after the checkpoint that covers them, and removed files kept by count."""

COMMITS_KEPT: Final = 10_000
"""Default of ``commit.retention.count``. Delta's own reader lists every commit, twice for a first query: with 100 commits that
query costs a second, with an hour's at four a second twice that, and with a day's ten times."""

DELETED_FILES_KEPT: Final = 30_000
"""Default of ``deleted.file.retention.count``: two hours at four flushes a second. Delta's own reader loads every tombstone, and
those of a day cost as much as the query itself."""

LOAD_ATTEMPTS_MAX: Final = 5
"""Most tries of a load, which starts again if clean-up deleted what was listed. Two are rare, three are a defect."""

LOAD_MS_MAX: Final = 1_200_000
"""Duration after which a load starts again: log clean-up may have begun to delete commits after its checkpoint."""

VERIFY_PROBLEMS_MAX: Final = 1_000
"""Most problems that one verification reports: more than a person reads, few enough to keep."""

CHECKPOINT_INTERVAL_MIN: Final = 100
"""Fewest commits between two checkpoints."""

CHECKPOINT_INTERVAL_MAX: Final = 500
"""Most commits between two checkpoints: bounds the replay at start-up."""

REMOVES_PER_COMMIT_MAX: Final = 10_000
"""Most segments that one commit removes when records are deleted or expire: some 2 MB. Every committer and follower of a log
holds the whole commit, as objects of several times that size. Further commits remove the rest."""

PROBED_COMMITS_MAX: Final = 2_000
"""Most commits probed for after a hinted checkpoint if listing a log costs all of it. With more, the hint is too old."""

PROBES_AT_ONCE: Final = 16
"""Versions probed in parallel then. A missing one shows the head; one that exists after a missing one shows a hole."""

assert CHECKPOINT_INTERVAL_MIN <= CHECKPOINT_INTERVAL_MAX
assert CHECKPOINT_INTERVAL_MAX * 2 <= PROBED_COMMITS_MAX
assert PROBED_COMMITS_MAX % PROBES_AT_ONCE == 0
assert RECORD_BYTES_DEFAULT <= REQUEST_BYTES_MAX
assert HEAD_TRUSTED_MS * 10 <= LOG_KEPT_MS_MIN
assert LOAD_MS_MAX * 2 <= LOG_KEPT_MS_MIN
assert SEGMENT_AGE_MAX_MS * 10 <= ORPHAN_GRACE_MS
assert DELETED_FILE_RETENTION_MS <= DELETED_FILE_RETENTION_MS_MAX

DRAIN_MS: Final = 240_000
"""Default of ``drain.ms``: how far a topic's own table may be behind its journal. A drain costs two PUTs per topic."""

DELAY_MS_DEFAULT: Final = 30 * 86_400_000
"""Default of ``delay.max.ms``: the longest delay of a record."""

DELAY_MS_MAX: Final = 3_650 * 86_400_000
"""Largest ``delay.max.ms``: ten years."""

SCHEDULED_BLOCK_BYTES: Final = 256 * 1024
"""Approximate size of a block of delayed records: a publisher reads blocks, not objects."""

SCHEDULED_BLOCK_RECORDS: Final = 4_096
"""Most delayed records in a block."""

PUBLICATION_BLOCKS: Final = 64
"""Most blocks from which one publication takes records. It is part of the format, since it numbers publications."""

PUBLICATION_BYTES: Final = 4 * 1024 * 1024
"""Stored bytes above which a publication takes no further block. It is part of the format, too."""

WINDOWS_KEPT_MS: Final = 1_800_000
"""How long an object says which delayed records were published, and a window which objects it has."""

WINDOW_PUT_MS_MAX: Final = 60_000
"""Time after the look before it within which a window's PUT must be answered to count."""

RETRIED_OBJECTS_KEPT_MS: Final = 25 * 3_600_000
"""How long after its last record an object is kept that a retried request would write again: longer than producers are known."""

assert WINDOW_PUT_MS_MAX * 10 <= WINDOWS_KEPT_MS

JOURNALS: Final = 16
"""Number of a store's journals. Few are in use: each costs its own flushes."""

JOURNAL_TOPICS_MAX: Final = 10_000
"""Most topics attached to one journal; further ones go to the next. A gateway that takes over loads them all."""

JOURNAL_RUNS_MAX: Final = 10_000
"""Most runs in one commit of a journal."""
assert PARTITION_COUNT_MAX <= JOURNAL_RUNS_MAX

JOURNAL_CLOSED_REMEMBERED: Final = 20_000
"""Most topics that left a journal and whose closed numbers it still remembers."""

JOURNAL_ATTACH_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most bytes of producers and transactions of the topics that one commit of a journal attaches, not counting the first topic. A
commit's entries have at most 64 MiB (docs/format.md, section 13.3)."""

OVERTAKE_MS: Final = 2_000
"""How long others wait for the program that changes a topic after its journal has closed the topic's number."""

JOURNAL_TAKEN_REMEMBERED: Final = 10_000
"""Newest committed objects that a journal's committer remembers: minutes of flushes, while offers last seconds."""

JOURNAL_TAG_PLAIN_BYTES_MAX: Final = 2_048
"""Size above which a tag of a journal's commit is compressed: a gateway writes one with each flush."""

JOURNAL_TAG_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest JSON of a tag, in bytes: a commit of the most runs takes a few megabytes."""

JOURNAL_REMOVES_MAX: Final = 1_000
"""Most objects that one commit of a journal removes."""

PRODUCERS_PER_TOPIC_MAX: Final = 16_384
"""Most producers that a topic remembers; above it the least recently used is forgotten. One takes about 1 KiB of memory."""

PRODUCER_REQUESTS_REMEMBERED: Final = 5
"""Newest requests of a producer whose offsets are remembered: as many as Kafka's clients have in flight at most."""

LANES_PER_TOPIC_MAX: Final = 32_768
"""Most pairs of a Kafka client's producer and a partition that a topic remembers; above it the least recently used producer is
forgotten. A pair takes about 1 KiB of memory."""

SPENT_PRODUCERS_MAX: Final = 32_768
"""Most forgotten producers of Kafka clients whose largest epoch a topic keeps. One takes about 160 bytes of memory."""

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Default of ``producer.id.expiration.ms``, Kafka's."""

TRANSACTION_TIMEOUT_MS_DEFAULT: Final = 60_000
"""Default of a transaction's ``timeout_ms``, Kafka's ``transaction.timeout.ms``."""

CHECK_PAUSE_MS: Final = 30_000
"""How long an open transaction that is checked back is reserved for the asker to whom it was offered."""

CHECKS_MAX: Final = 15
"""Number of offers of such a transaction; it is aborted after the last one's pause. RocketMQ's default."""

TRANSACTION_TIMEOUT_MS_MIN: Final = 1_000
"""Smallest ``timeout_ms`` (docs/http-api.md, section 5): a shorter one would end before a slow store has staged anything."""

TRANSACTION_TIMEOUT_MS_MAX: Final = 900_000
"""Largest ``timeout_ms``, Kafka's ``transaction.max.timeout.ms``: how long records may stay staged."""

TRANSACTION_REMEMBERED_MS: Final = 86_400_000
"""How long an ended transaction is remembered, so that a late question gets an answer (docs/http-api.md, section 5)."""

TRANSACTIONS_REMEMBERED_MAX: Final = 100_000
"""Most transactions remembered; above it those that ended longest ago are forgotten early."""

TRANSACTIONS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most memory for remembered transactions in every gateway: some 10,000 of few partitions each. Above it those that ended longest
ago are forgotten early. No transaction begins while unfinished ones alone take that much."""

TRANSACTIONAL_IDS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most memory for transactional ids in every gateway: some 10,000. They are kept for days, so new ones are refused."""

TRANSACTION_PASSING_MS: Final = 60_000
"""How long an ended transaction is remembered that no client can ask about: that of a request without a producer. Gateways that
finish it concurrently see that it has ended."""

TRANSACTIONAL_ID_REMEMBERED_MS: Final = 7 * 86_400_000
"""How long a transactional id is remembered: Kafka's ``transactional.id.expiration.ms``."""

NUMBERED_ID_REMEMBERED_MS: Final = 90 * 86_400_000
"""How long a transactional id that numbers its transactions is remembered. A query killed within a batch may rest that long and
still not write the batch twice."""

NUMBERED_IDS_MAX: Final = 10_000
"""Most transactional ids that are remembered longer for their numbers; above it the longest unused are forgotten. One takes about
1 KiB of memory in every gateway."""

TRANSACTION_BYTES_MAX: Final = 64 * 1024 * 1024
"""Most staged bytes of one transaction over HTTP, and most that a gateway holds in memory of any when it commits."""

TRANSACTION_REQUESTS_MAX: Final = 1_000
"""Most staged requests of one transaction: each is an object that the decision names. One listing shows them all."""

KAFKA_TRANSACTION_BYTES_MAX: Final = 10 * 1024 * 1024 * 1024
"""Most staged bytes of a Kafka client's transaction: its segments are uploaded within ``SEGMENT_AGE_MAX_MS`` at 3 MiB
a second."""

KAFKA_TRANSACTION_BATCHES_MAX: Final = 100_000
"""Most batches of a Kafka client's transaction: each is an object that its index names, in some 120 bytes."""

JOB_TOPIC_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Most staged bytes of one topic in a transaction that a job commits by itself. The process that applies it holds them in memory,
as one segment. Gateways leave those above ``TRANSACTION_BYTES_MAX`` to the job and to maintenance."""

JOB_OBJECTS_MAX: Final = 10_000
"""Most staged objects of a job's transaction: the decision names each one, in some 80 bytes."""

assert TRANSACTION_TIMEOUT_MS_MAX < TRANSACTION_REMEMBERED_MS <= TRANSACTIONAL_ID_REMEMBERED_MS
assert TRANSACTIONAL_ID_REMEMBERED_MS < NUMBERED_ID_REMEMBERED_MS

TOPIC_OWNERS_MAX: Final = 64
"""Most gateways that share a topic's partitions: each adds conflicts at the one next version."""

ROW_GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""Uncompressed bytes of records after which a run continues in another row group (which may have one record more). A reader
decodes a whole row group to get one record."""

SEGMENT_WHOLE_BYTES_MAX: Final = 1024 * 1024
"""Size up to which a segment with an unknown footer is read as a whole: a request costs more than that transfer."""

READ_SPAN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most stored bytes of adjacent row groups that one range request asks for, unless one row group alone is larger."""

FOOTER_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Default limit of a reader's cache of decoded footers; a footer of 8 row groups takes about 20 KiB."""

assert ROW_GROUP_BYTES_MAX <= READ_SPAN_BYTES_MAX

KEY_BYTES_MAX: Final = 900
"""Largest key of an object, in bytes of UTF-8. S3 allows 1,024; the store's prefix gets the rest."""

KEY_NAME_BYTES_MAX: Final = 255
"""Largest name between two slashes of a key, in bytes: what the usual file systems allow."""

SEGMENT_PATH_BYTES_MAX: Final = 512
"""Largest path of a segment in its table, in bytes: it fits a key even after the longest topic name. Tidelog's own have 53."""

CLUSTER_BYTES_MAX: Final = 4 * 1024
"""Largest ``system/cluster.json`` or ``_last_checkpoint``, in bytes: a few members each."""

COMMIT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Largest commit, in bytes. One of 10,000 partitions and as many removed segments has some 6 MB; offsets of a large group 16 MB.
A committer refuses to write a larger one, and a reader to read it."""

CHECKPOINT_BYTES_MAX: Final = 512 * 1024 * 1024
"""Largest checkpoint, in bytes: that of a busy topic, with a week of removed segments, has some 100 MB."""

FOOTER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest footer of a segment, in bytes: one of 10,000 row groups has some 8 MB."""

assert REMOVES_PER_COMMIT_MAX * 1024 + PARTITION_COUNT_MAX * 1024 < COMMIT_BYTES_MAX

STORE_ATTEMPTS_MAX: Final = 8
"""Most tries of one request to a store; with the pauses below the last comes after four seconds on average."""

STORE_PAUSE_FIRST_MS: Final = 100
"""Longest first pause between two tries; doubles each time."""

STORE_PAUSE_LAST_MS: Final = 3_000
"""Longest pause between two tries."""

STORE_RETRY_MS_MAX: Final = 15_000
"""Time after the first try in which further tries begin. Clients wait longer, so they get an answer."""

S3_CONNECTIONS: Final = 32
"""Default of concurrent requests over kept connections."""

S3_CONNECT_TIMEOUT_MS: Final = 3_000
"""Default timeout of connecting: a live server accepts in milliseconds; one lost packet costs a second."""

S3_READ_TIMEOUT_MS: Final = 10_000
"""Default timeout between two pieces of an answer: S3's slowest answers to small requests take a few seconds."""

DIRECTORY_ATTEMPTS_MAX: Final = 100
"""How often a PUT creates its directory again after a delete of the last object removed it."""

DIRECTORIES_REMEMBERED_MAX: Final = 128
"""Directories that a local store keeps open, one file descriptor each: those of some sixty topics."""

TEMPORARY_FILE_AGE_MAX_MS: Final = 3_600_000
"""Age from which an untouched temporary file has lost its process: writing one takes seconds."""

assert len("topics//") + TOPIC_NAME_CHARACTERS_MAX + SEGMENT_PATH_BYTES_MAX <= KEY_BYTES_MAX
assert STORE_PAUSE_FIRST_MS <= STORE_PAUSE_LAST_MS <= STORE_RETRY_MS_MAX
assert SEGMENT_AGE_MAX_MS >= LOG_KEPT_MS_MIN >= (STORE_RETRY_MS_MAX + S3_CONNECT_TIMEOUT_MS + S3_READ_TIMEOUT_MS) * 10

LOCK_MS_MIN: Final = 1_000
"""Smallest ``lock_ms`` of a queue (docs/http-api.md, section 11): a shorter lock would end while its answer is on the way."""

LOCK_MS_MAX: Final = 43_200_000
"""Largest ``lock_ms``: the gateway that takes over a queue waits for the end of one lock."""

LOCK_MS_DEFAULT: Final = 30_000
"""Default of ``lock_ms``, Kafka's ``group.share.record.lock.duration.ms``."""

DELIVERIES_MAX: Final = 1_000
"""Largest ``max_deliveries`` of a queue."""

DELIVERIES_DEFAULT: Final = 5
"""Default of ``max_deliveries``, Kafka's ``group.share.delivery.attempt.limit``."""

IN_FLIGHT_DEFAULT: Final = 2_000
"""Default of ``max_in_flight``, Kafka's ``group.share.partition.max.record.locks``."""

IN_FLIGHT_MAX: Final = 100_000
"""Largest ``max_in_flight`` of a queue, for each partition."""

RELEASE_DELAY_MS_MAX: Final = 7 * 86_400_000
"""Largest delay of a released record, and largest entry of ``backoff_ms``: a delayed record holds back the start offset."""

BACKOFFS_MAX: Final = 100
"""Most entries of ``backoff_ms``."""

REASON_BYTES_MAX: Final = 1_000
"""Largest ``reason`` of a settlement, in bytes of UTF-8: it is stored until the record is in the dead letter topic."""

QUEUE_TOPICS_MAX: Final = 1_000
"""Most topics of one queue."""

FILTER_HEADERS_MAX: Final = 16
"""Most headers that a filter names."""

QUEUE_RUNS_MAX: Final = 4_000
"""Most stored runs of one queue, about 1 MiB in memory. With more, no further records are leased until earlier ones
are settled."""

assert LOCK_MS_MIN <= LOCK_MS_DEFAULT <= LOCK_MS_MAX
assert DELIVERIES_DEFAULT <= DELIVERIES_MAX
assert IN_FLIGHT_DEFAULT <= IN_FLIGHT_MAX
