"""Diagnosing whether a store can hold a log, and whether logs are maintained and journals drained: ``tidelog doctor``.

1. Every check ends in one ``Finding``. After a failed check the next one runs, unless it could only repeat the failure.
2. Probes are below ``system/probes/`` under unique names, and are deleted again. With ``is_reader`` nothing is written.
3. Topics are only read. At most ``TOPICS_MAX`` of them are opened, each as a gateway opens it.

Whether the records are complete is not checked here, since that means reading all of them (``log_format.inspection.verify``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from statistics import median
from typing import Final

from log_format import layout, limits
from log_format.checkpoints.journal_log import journal_table, list_journals
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.cluster.maintenance_sign import read_sign
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.log import TableLog
from log_format.errors import CorruptData, ObjectExists, StoreError, StoreReason, UnsupportedTable, store_reason
from log_format.ids import NewId
from log_format.inspection.finding import Finding, Verdict, bad, good, poor
from log_format.journal.state import JournalState
from log_format.store import ObjectStore
from log_format.topic.retention import expired_offsets
from log_format.topic.state import TopicState
from log_format.transactions.damaged_transactions import ADVICE, find_damaged
from log_format.transactions.state import transactions_table
from log_format.words import counted

PROBE: Final = b"tidelog doctor"
PUTS: Final = 10
"""Number of conditional PUTs that are timed, one after another, as in commits."""
SLOW_PUT_MS: Final = 250
"""Duration from which a PUT is slow. A commit is two PUTs in a row; slower ones take longer than the default ``flush.ms``."""
SKEW_NOTED_MS: Final = 10_000
"""Least clock difference that is reported. Stores give times in whole seconds, and a request takes time."""
SKEW_MAX_MS: Final = 300_000
"""Clock difference from which it is an error. S3 refuses requests beyond fifteen minutes; timestamps and retention
fail before."""
HEARTBEAT_MS_MAX: Final = 240_000
"""Age from which a heartbeat's gateway is gone: four times the longest ``heartbeat_ms``."""
SILENT_MS: Final = 12_000
"""Age from which a heartbeat is late: four times the default ``heartbeat_ms``."""
HEARTBEATS_MAX: Final = 256
TOPICS_MAX: Final = 1_000
SEGMENTS_MAX: Final = 10_000
"""Most segments of a topic: they take 5 MB in each gateway, half a second to open, and as long in each batch of Spark."""
COMMITS_MAX: Final = 2 * limits.CHECKPOINT_INTERVAL_MAX
"""Most commits after the newest checkpoint. Gateways write a checkpoint after at most half as many."""
DRAINS_LATE: Final = 3
"""Multiple of ``drain.ms`` after which a drain is late: gateways drain by then, and maintenance does after twice the time."""
OVERDUE_MS: Final = 24 * 3_600_000
"""Delay after which retention is overdue: maintenance enforces it, and runs at least daily."""


def diagnose(store: ObjectStore, clock: Clock, new_id: NewId, *, is_reader: bool = False) -> Iterator[Finding]:
    """Check the store, then each topic; yield each finding as soon as it is made.

    ``is_reader``: check only what a reading Spark job needs. Some 40 requests, and a few for each topic. Raises nothing: a
    refusal of the store is a finding.
    """
    listing = _listing(store)
    yield listing
    if listing.verdict is Verdict.BAD:
        return
    if not is_reader:
        key = f"{layout.PROBES}{new_id()}"
        writing = _writing(store, key)
        yield writing
        if writing.verdict is not Verdict.BAD:
            yield _reading(store, key)
            yield _condition(store, key)
            yield _clocks(store, clock, key)
            yield _speed(store, clock, f"{key}-")
            yield _deleting(store, [key, f"{key}-clock", *(f"{key}-{number}" for number in range(PUTS))])
        yield _gateways(store, clock)
        yield _maintenance(store, clock)
        yield from _transactions(store, clock)
    yield from _topics(store, clock)
    yield from _journals(store, clock)


def _listing(store: ObjectStore) -> Finding:
    what = "list"
    try:
        for prefix in (layout.SYSTEM, layout.TOPICS):
            next(iter(store.list(prefix)), None)
    except StoreError as error:
        return _refused(
            store, what, "Its objects can't be listed", "s3:ListBucket on the bucket, for the prefix", error
        )
    return good(what, "Its objects can be listed.")


def _writing(store: ObjectStore, key: str) -> Finding:
    what = "write"
    try:
        store.put_if_absent(key, PROBE)
    except StoreError as error:
        return _refused(store, what, "Nothing can be written", "s3:PutObject below the prefix", error)
    return good(what, "Objects can be written.")


def _reading(store: ObjectStore, key: str) -> Finding:
    what = "read"
    try:
        is_same = (
            store.get(key) == PROBE
            and store.get_range(key, 1, 4) == PROBE[1:4]
            and store.head(key).size_bytes == len(PROBE)
            and [info.key for info in store.list(key)] == [key]
        )
    except StoreError as error:
        return _refused(store, what, "A new object can't be read", "s3:GetObject below the prefix", error)
    if not is_same:
        said = "A new object is not visible immediately by a get, a range, its size or a listing."
        return bad(what, said, "Use a store that is consistent, without a cache in front of it.")
    return good(what, "A new object can be read immediately, whole and by range.")


def _condition(store: ObjectStore, key: str) -> Finding:
    what = "put-if-absent"
    try:
        store.put_if_absent(key, b"another")
    except ObjectExists:
        return good(what, "Put-if-absent does not replace an existing object.")
    except StoreError as error:
        return _refused(store, what, "A second put-if-absent failed", "If-None-Match: * on PutObject", error)
    return bad(
        what,
        "The store ignores put-if-absent: it let an object be replaced. Acknowledged records would be lost.",
        "Use a store that honours If-None-Match: * on PUT: Amazon S3, MinIO and others do.",
    )


def _clocks(store: ObjectStore, clock: Clock, key: str) -> Finding:
    what, probe = "clock", f"{key}-clock"
    try:
        before_ms = clock.now_ms()
        store.put(probe, PROBE)
        after_ms = clock.now_ms()
        stored_ms = store.head(probe).modified_at_ms
    except StoreError as error:
        return _refused(
            store, what, "The clocks could not be compared", "s3:PutObject and s3:GetObject below the prefix", error
        )
    skew_ms = max(before_ms - stored_ms, stored_ms - after_ms, 0)
    said = f"This machine's clock and the store's differ by {skew_ms / 1000:.0f} s."
    if skew_ms <= SKEW_NOTED_MS:
        return good(what, "This machine's clock and the store's agree.")
    return Finding(
        what=what,
        verdict=Verdict.POOR if skew_ms <= SKEW_MAX_MS else Verdict.BAD,
        said=said,
        advice="Run NTP on this machine: timestamps, retention and the collection of orphans go by clocks.",
    )


def _speed(store: ObjectStore, clock: Clock, prefix: str) -> Finding:
    what = "latency"
    taken_ms: list[int] = []
    try:
        for number in range(PUTS):
            started_ms = clock.monotonic_ms()
            store.put_if_absent(f"{prefix}{number}", PROBE)
            taken_ms.append(clock.monotonic_ms() - started_ms)
    except StoreError as error:
        return _refused(store, what, "A chain of conditional PUTs broke", "s3:PutObject below the prefix", error)
    middle_ms, worst_ms = round(median(taken_ms)), max(taken_ms)
    said = f"A conditional PUT takes {middle_ms} ms (median of {PUTS}; slowest {worst_ms} ms); a flush takes two."
    if middle_ms <= SLOW_PUT_MS:
        return good(what, said)
    return poor(
        what,
        said,
        "Run gateways in the bucket's region, by a gateway endpoint; or raise flush.ms, so that flushes are fewer.",
    )


def _deleting(store: ObjectStore, keys: list[str]) -> Finding:
    what = "delete"
    try:
        for key in keys:
            store.delete(key)
    except StoreError as error:
        return _refused(
            store,
            what,
            "Probes can't be deleted, and neither could heartbeats and staged records",
            f"s3:DeleteObject below {layout.SYSTEM}",
            error,
        )
    return good(what, f"Objects below {layout.SYSTEM} can be deleted.")


def _gateways(store: ObjectStore, clock: Clock) -> Finding:
    what = "gateways"
    try:
        now_ms = clock.now_ms()
        ages_ms = [now_ms - info.modified_at_ms for info in islice(store.list(layout.GATEWAYS), HEARTBEATS_MAX)]
    except StoreError as error:
        return _refused(
            store, what, "The heartbeats can't be listed", "s3:ListBucket on the bucket, for the prefix", error
        )
    live = sum(age_ms <= HEARTBEAT_MS_MAX for age_ms in ages_ms)
    silent_ms = [age_ms for age_ms in ages_ms if SILENT_MS < age_ms <= HEARTBEAT_MS_MAX]
    said = (
        f"{live - len(silent_ms)} alive; {len(ages_ms) - live} ended without leaving (harmless)."
        if ages_ms
        else "None has started here."
    )
    if silent_ms:
        since_s = max(silent_ms) // 1000
        said += f" {len(silent_ms)} silent for up to {since_s} s:"
        said += " ended or unable to write, unless heartbeat_ms is above its default."
    if live or not ages_ms:
        return good(what, said)
    advice = "If one should run, look at its log: it writes a heartbeat every few seconds."
    return poor(what, said, advice)


def _maintenance(store: ObjectStore, clock: Clock) -> Finding:
    what = "maintenance"
    try:
        sign = read_sign(store)
    except StoreError as error:
        if store_reason(error) is StoreReason.ACCESS_DENIED:
            said = f"These credentials are not allowed to see its sign of life ({layout.MAINTENANCE_KEY})."
            advice = (
                "Readers and jobs that write need no more. Gateways and maintenance must be allowed to read that object."
                " Whether maintenance runs, tidelog cluster tells, too."
            )
            return poor(what, said, advice)
        return _refused(store, what, "Its sign of life can't be read", "s3:GetObject below the prefix", error)
    if sign is None:
        return good(what, "It has not run here yet: tidelog maintain merges small files and applies retention.")
    age_ms = clock.now_ms() - sign.seen_at
    if age_ms < -SKEW_NOTED_MS:
        said = f"Its sign of life is dated {-age_ms // 1000:,} s ahead of this machine's clock: how old it is can't be told."
        return poor(what, said, "Compare the clocks, and look at its log, or at tidelog cluster, whether it runs.")
    age_ms = max(0, age_ms)
    said = f"It gave a sign of life {counted(age_ms // 60_000, 'minute')} ago"
    if sign.silent_ms(age_ms):
        said += f", and runs each {counted(max(1, (sign.interval_ms or 0) // 1000), 'second')}."
        advice = (
            "Its process hangs or is dead, or its timer does not start it: look at its log, and start tidelog maintain."
        )
        return poor(what, said, advice)
    if sign.failed_topics:
        said += f"; its last round failed for {counted(sign.failed_topics, 'topic')}."
        return poor(what, said, "Its log names them, and why.")
    return good(what, f"{said}.")


def _transactions(store: ObjectStore, clock: Clock) -> Iterator[Finding]:
    """Yield a finding for each decided transaction that lacks staged objects."""
    what = "transactions"
    try:
        state = TableLog(store, transactions_table(), clock).refresh()
        for each in find_damaged(store, state, clock.now_ms()):
            said = (
                f"It is decided, and lacks {len(each.lost)} of its staged objects: its producer and readers of its groups wait. "
                f"The first is {each.lost[0]}."
            )
            yield bad(f"transaction {each.row.transaction_id}", said, ADVICE)
    except StoreError as error:
        yield _refused(store, what, "They can't be read", "s3:GetObject below the prefix", error)
    except (CorruptData, UnsupportedTable) as error:
        yield bad(
            what, f"Their table is damaged: {error.detail}", "Restore the object (docs/operations.md, Restoring)."
        )


def _topics(store: ObjectStore, clock: Clock) -> Iterator[Finding]:
    try:
        names = list(islice(store.list_directories(layout.TOPICS), TOPICS_MAX + 1))
    except StoreError as error:
        yield _refused(
            store, "topics", "The topics can't be listed", "s3:ListBucket on the bucket, for the prefix", error
        )
        return
    poor_count = 0
    for name in names[:TOPICS_MAX]:
        finding = _topic(store, clock, name)
        if finding is not None:
            poor_count += 1
            yield finding
    shown = f"the first {TOPICS_MAX}" if len(names) > TOPICS_MAX else f"{len(names)}"
    verdict = Verdict.GOOD if not poor_count else Verdict.POOR
    yield Finding(what="topics", verdict=verdict, said=f"{shown} checked, {poor_count} of them poor.")


def _topic(store: ObjectStore, clock: Clock, name: str) -> Finding | None:
    """Return what is wrong with a topic; None if nothing is."""
    what = f"topic {name}"
    try:
        state = TopicLog(store, name, clock).refresh()
        checkpoint = read_hinted_version(store, layout.topic_root(name))
    except StoreError as error:
        return _refused(store, what, "Its log can't be read", "s3:GetObject below the prefix", error)
    except UnsupportedTable as error:
        advice = "Run that release here, too (docs/operations.md, Other writers)."
        return bad(what, error.detail, advice)
    except CorruptData as error:
        advice = (
            f"Restore the object from a backup, or repair the topic without the lost data: --repair {name} "
            "(docs/operations.md, Restoring)."
        )
        return bad(what, f"Its log is damaged: {error.detail}", advice)
    if not state.exists:
        return None
    said = _neglect(state, state.version - (-1 if checkpoint is None else checkpoint), clock.now_ms())
    if not said:
        return None
    advice = "Run tidelog maintain, and find out why it does not run regularly."
    return poor(what, said, advice)


def _neglect(state: TopicState, commits: int, now_ms: int) -> str:
    """Return what maintenance has left undone, empty if nothing. ``commits``: number of commits after the newest checkpoint."""
    segments, overdue = state.manifest.segment_count(), len(expired_offsets(state, now_ms - OVERDUE_MS))
    if segments > SEGMENTS_MAX:
        return f"It has {segments:,} segments: maintenance does not merge them."
    if commits > COMMITS_MAX:
        return f"{counted(commits, 'commit')} came after its newest checkpoint."
    return f"{overdue} of its partitions keep records that expired more than a day ago." if overdue else ""


def _journals(store: ObjectStore, clock: Clock) -> Iterator[Finding]:
    """Yield a finding for each journal of the store."""
    try:
        numbers = list_journals(store)
    except StoreError as error:
        yield _refused(
            store, "journals", "The journals can't be listed", "s3:ListBucket on the bucket, for the prefix", error
        )
        return
    for number in numbers:
        yield _journal(store, clock, number)


def _journal(store: ObjectStore, clock: Clock, number: int) -> Finding:
    what = f"journal {number}"
    try:
        log = TableLog(store, journal_table(number), clock)
        state = log.refresh()
        checkpoint = read_hinted_version(store, log.table.root)
    except StoreError as error:
        return _refused(store, what, "Its log can't be read", "s3:GetObject below the prefix", error)
    except (CorruptData, UnsupportedTable) as error:
        advice = "Restore the object (docs/operations.md, Restoring)."
        return bad(what, f"Its log is damaged: {error.detail}", advice)
    said = _undrained(state, clock.now_ms())
    commits = state.version - (-1 if checkpoint is None else checkpoint)
    if not said and commits > COMMITS_MAX:
        said = f"{counted(commits, 'commit')} came after its newest checkpoint."
    if said:
        advice = "Run tidelog maintain, and look in the gateways' logs for topics that can't be drained."
        return poor(what, said, advice)
    topics = len(state.topics.by_id)
    return good(what, f"It serves {counted(topics, 'topic')}; the tables keep up.")


def _undrained(state: JournalState, now_ms: int) -> str:
    """Return which topics' tables are further behind than maintenance allows; empty if none is."""
    waiting = [
        (now_ms - topic.undrained_since_ms, topic)
        for topic in state.topics.by_id.values()
        if topic.undrained_since_ms is not None
    ]
    late = [(age_ms, topic) for age_ms, topic in waiting if age_ms > DRAINS_LATE * topic.drain_ms]
    if not late:
        return ""
    age_ms, oldest = max(late, key=lambda each: each[0])
    who = "Nothing drains it" if len(late) == len(waiting) else "Some of its topics are not drained"
    return (
        f"{who}: {counted(len(late), 'table')} behind the topic's drain.ms, that of {oldest.name!r} "
        f"by {age_ms // 60_000:,} minutes."
    )


def _refused(store: ObjectStore, what: str, said: str, needed: str, error: StoreError) -> Finding:
    if store.uri.startswith("file:"):
        advice = (
            "This user must be allowed to read, write and delete there, on a file system with room and with hard links."
        )
    else:
        advice = f"In a bucket this needs {needed}; and the bucket's name, its region and endpoint must be right."
    return bad(what, f"{said}: {error.detail}.", advice)
