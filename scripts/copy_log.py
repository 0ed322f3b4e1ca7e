"""Copies a log from one store to another while gateways write to the first: a backup, and the way back from it.

    python scripts/copy_log.py s3://bucket/log s3://backup/2026-11-21
    python scripts/copy_log.py s3://bucket/log ./restored --topic orders --version 1234

The order makes the copy whole: groups' offsets first, then each topic's ``_delta_log`` in the order of its versions, then its
segments. So for each copied offset the copied log has the records. A copied commit names segments that existed when it was
copied: removed ones stay for ``deleted.file.retention.ms``. Transactions and heartbeats are not copied. A transaction under way
may be in some topics of the copy and not in others; where that matters, drain the gateways first.

``--version`` stops a topic at that version, without later commits and checkpoints. It fails when clean-up has deleted objects
that it needs. Objects that exist in the target are left as they are, so a copy that broke off goes on. A target must hold
nothing else. Afterwards every topic is verified as ``tidelog verify`` does. Exit code 1 when one is damaged: clean-up ran
meanwhile (run it again), or the source is damaged.
"""
# ruff: noqa: INP001, T201 - a program of its own that talks to a terminal

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from log_format import layout
from log_format.delta.log import without_gaps
from log_format.errors import ObjectExists, ObjectMissing, TidelogError, UnknownTopic
from log_format.inspection.verify import verify_topic
from log_format.store import ObjectStore
from log_format.stores import open_store

COPIES_AT_ONCE = 8


def main(arguments: list[str] | None = None) -> int:
    """0 when every topic of the copy is whole, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="the store to copy from")
    parser.add_argument("target", help="the store to copy to: empty, or what an earlier run left")
    parser.add_argument("--topic", action="append", help="only this topic, without groups' offsets; may be repeated")
    parser.add_argument("--version", type=int, help="stop at this version of the table (with one --topic)")
    chosen = parser.parse_args(arguments)
    if chosen.version is not None and len(chosen.topic or []) != 1:
        parser.error("--version needs one --topic: each table counts its own versions")
    source, target = open_store(chosen.source), open_store(chosen.target)
    if chosen.topic is None:
        # The key that proves producer ids, and the groups' offsets.
        copy_all(source, target, keys(source, layout.CLUSTER_KEY))
        copy_table(source, target, layout.CONSUMER_OFFSETS_ROOT, None)
    topics = chosen.topic or list(source.list_directories(layout.TOPICS))
    for topic in topics:
        copy_table(source, target, layout.topic_root(topic), chosen.version)
    damaged = 0
    for topic in topics:
        damaged += not _is_whole(target, topic)
    return 1 if damaged else 0


def copy_table(source: ObjectStore, target: ObjectStore, root: str, version_max: int | None) -> None:
    """Copy the log up to ``version_max``, then everything else below ``root``, even what only later versions name."""
    log, hint = layout.table_log_prefix(root), layout.table_last_checkpoint_key(root)
    listed = [key for key in keys(source, log) if key != hint]
    versions = [version for key in listed if (version := layout.commit_version(key)) is not None]
    # A listing during writes may lack a commit and show the next one.
    between = [layout.table_commit_key(root, version) for version in without_gaps(versions, min(versions, default=0))]
    copied = [key for key in sorted({*listed, *between}) if _is_within(key, version_max)]
    # One after another, so that a partial copy has the log's beginning.
    copy_all(source, target, copied, at_once=1)
    copy_all(source, target, [key for key in keys(source, root) if not key.startswith(log)])


def keys(store: ObjectStore, prefix: str) -> list[str]:
    """The keys below ``prefix`` now, in order."""
    return [info.key for info in store.list(prefix)]


def copy_all(source: ObjectStore, target: ObjectStore, copied: list[str], *, at_once: int = COPIES_AT_ONCE) -> None:
    """Copy each object once. One that is gone meanwhile was no longer needed; otherwise the verification misses it."""

    def copy(key: str) -> None:
        try:
            target.put_if_absent(key, source.get(key))
        except (ObjectExists, ObjectMissing):
            return

    if at_once == 1:
        for key in copied:
            copy(key)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(copy, copied):
            pass


def _is_within(key: str, version_max: int | None) -> bool:
    if version_max is None:
        return True
    commit, checkpoint = layout.commit_version(key), layout.checkpoint_version(key)
    version = commit if commit is not None else checkpoint
    return version is not None and version <= version_max


def _is_whole(target: ObjectStore, topic: str) -> bool:
    try:
        report = verify_topic(target, topic)
    except UnknownTopic:
        is_deleted = any(target.list(layout.log_prefix(topic)))
        print(f"{topic}: {'deleted' if is_deleted else 'there is no such topic'}", flush=True)
        return is_deleted
    except TidelogError as error:
        print(f"{topic}: {error.detail}", file=sys.stderr)
        return False
    print(f"{topic}: {report.record_count:,} records in {report.segment_count:,} segments", flush=True)
    for problem in report.problems:
        print(f"{topic}: {problem}", file=sys.stderr)
    return report.ok


if __name__ == "__main__":
    sys.exit(main())
