"""Which object lies where, below the store's root.

::

    topics/<topic>/_delta_log/<version, 20 digits>.json                   one commit
    topics/<topic>/_delta_log/<version, 20 digits>.checkpoint.parquet     the reconciled log up to it
    topics/<topic>/_delta_log/_last_checkpoint                            a hint: the newest checkpoint
    topics/<topic>/_cleaned/<version, 20 digits>                          commits below it may have been deleted
    topics/<topic>/segments/<unique>.parquet                              one flush
    topics/<topic>/compacted/<unique>.parquet                             rewritten records of one partition
    system/gateways/<gateway id>.json                                     which gateways are alive (a hint)
    system/transactions/                                                  a table: the decisions of transactions
    system/consumer_offsets/                                              a table: what each group has consumed
    system/probes/                                                        what a look at the store left, if anything
"""

from __future__ import annotations

import re

TOPICS = "topics/"
SYSTEM = "system/"
CLUSTER_KEY = f"{SYSTEM}cluster.json"
GATEWAYS = f"{SYSTEM}gateways/"
PROBES = f"{SYSTEM}probes/"
TRANSACTIONS_ROOT = f"{SYSTEM}transactions/"
CONSUMER_OFFSETS_ROOT = f"{SYSTEM}consumer_offsets/"
SEGMENTS = "segments/"
COMPACTED = "compacted/"
VERSION_DIGITS = 20
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")


def topic_root(topic: str) -> str:
    """The key prefix of the topic's table, with its slash at the end."""
    return f"{TOPICS}{topic}/"


def table_log_prefix(root: str) -> str:
    """The key prefix of the Delta log of the table below ``root``, with its slash at the end."""
    return f"{root}_delta_log/"


def table_commit_key(root: str, version: int) -> str:
    """The key of one commit of the table below ``root``."""
    return f"{table_log_prefix(root)}{version:020d}.json"


def table_checkpoint_key(root: str, version: int) -> str:
    """The key of the checkpoint at ``version`` of the table below ``root``."""
    return f"{table_log_prefix(root)}{version:020d}.checkpoint.parquet"


def table_last_checkpoint_key(root: str) -> str:
    """The key of the hint that names the newest checkpoint of the table below ``root``."""
    return f"{table_log_prefix(root)}_last_checkpoint"


def table_cleaned_prefix(root: str) -> str:
    """The key prefix of the notes that say what clean-up deleted of the log of the table below ``root``."""
    return f"{root}_cleaned/"


def table_cleaned_key(root: str, version: int) -> str:
    """The key of the note that commits below ``version`` of the table below ``root`` may be gone."""
    return f"{table_cleaned_prefix(root)}{version:020d}"


def log_prefix(topic: str) -> str:
    """The key prefix of the topic's Delta log, with its slash at the end."""
    return table_log_prefix(topic_root(topic))


def commit_key(topic: str, version: int) -> str:
    """The key of one commit."""
    return table_commit_key(topic_root(topic), version)


def checkpoint_key(topic: str, version: int) -> str:
    """The key of the checkpoint at ``version``."""
    return table_checkpoint_key(topic_root(topic), version)


def last_checkpoint_key(topic: str) -> str:
    """The key of the hint that names the newest checkpoint."""
    return table_last_checkpoint_key(topic_root(topic))


def segment_path(unique: str) -> str:
    """The path of a flush's segment, relative to the table, as ``add.path`` has it."""
    return f"{SEGMENTS}{unique}.parquet"


def compacted_path(unique: str) -> str:
    """The path of a rewritten segment, relative to the table, as ``add.path`` has it."""
    return f"{COMPACTED}{unique}.parquet"


def commit_version(key: str) -> int | None:
    """The version that a key names as a commit; None when it names something else."""
    match = _COMMIT.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def checkpoint_version(key: str) -> int | None:
    """The version that a key names as a checkpoint; None when it names something else."""
    match = _CHECKPOINT.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None
