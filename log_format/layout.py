"""The keys of all objects, relative to the store's root.

::

    topics/<topic>/_delta_log/<version, 20 digits>.json                   one commit
    topics/<topic>/_delta_log/<version, 20 digits>.checkpoint.parquet     the reconciled log up to it
    topics/<topic>/_delta_log/<version>.checkpoint.<part>.<2>.parquet     the same in two parts: the log's, the archive's
    topics/<topic>/_delta_log/_last_checkpoint                            a hint: the newest checkpoint
    topics/<topic>/_cleaned/<version, 20 digits>                          commits below it may have been deleted
    topics/<topic>/_cloning/<unique>                                      copies of another topic's files are on their way
    topics/<topic>/_clones/<topic id>/<clone's id>~<clone>                the topic was cloned
    topics/<topic>/_iceberg/<topic id>/<version>-<unique>.avro            a manifest list for Iceberg's readers
    topics/<topic>/_iceberg/<topic id>/m-<unique>.avro                    a manifest that such lists name
    topics/<topic>/_iceberg/<topic id>/pin-<version>-<unique>.avro        a manifest list of a pinned version
    topics/<topic>/_iceberg/<topic id>/pin-m-<version>-<unique>.avro      a manifest that such a list names
    topics/<topic>/segments/<unique>.parquet                              one flush
    topics/<topic>/compacted/<unique>.parquet                             rewritten records of one partition
    system/gateways/<gateway id>.json                                     which gateway is alive (a hint)
    system/transactions/                                                  a table: the decisions of transactions
    system/consumer_offsets/                                              a table: the groups' committed offsets
    system/queues/                                                        a table: the queues and their settlements
    system/access/                                                        a table: credentials, roles, ACLs, quotas
    system/schemas/                                                       a table: the schema registry
    system/journals/<n>/                                                  a table: many topics' flushes (``log_format/journal``)
    system/scheduled/<minute, 10 digits>/<topic>/<due>~<topic id>~<name>  delayed records are due (``log_format/scheduled``)
    system/maintenance.json                                               maintenance's sign of life (a hint)
    system/probes/                                                        probes of the store, left over from a crash
    system/copying                                                        a copy into this store is running, or was interrupted
    system/copied                                                         this store is a copy of another, and of when
    topics/<topic>/scheduled/<topic id>/objects/<name>                    delayed records of some requests
    topics/<topic>/scheduled/<topic id>/windows/<number, 20 digits>.json  which of them are published
    topics/<topic>/scheduled/<topic id>/cancelled/<due>~<name>~<row>      a delayed record that is not published
"""

from __future__ import annotations

import re

TOPICS = "topics/"
SYSTEM = "system/"
CLUSTER_KEY = f"{SYSTEM}cluster.json"
GATEWAYS = f"{SYSTEM}gateways/"
MAINTENANCE_KEY = f"{SYSTEM}maintenance.json"
PROBES = f"{SYSTEM}probes/"
COPYING = f"{SYSTEM}copying"
COPIED = f"{SYSTEM}copied"
TRANSACTIONS_ROOT = f"{SYSTEM}transactions/"
CONSUMER_OFFSETS_ROOT = f"{SYSTEM}consumer_offsets/"
QUEUES_ROOT = f"{SYSTEM}queues/"
ACCESS_ROOT = f"{SYSTEM}access/"
SCHEMAS_ROOT = f"{SYSTEM}schemas/"
JOURNALS = f"{SYSTEM}journals/"
SCHEDULED = f"{SYSTEM}scheduled/"
AUDIT_TOPIC = "__audit"
"""Name of the topic of audit events, written by gateways only."""
METRICS_TOPIC = "__metrics"
"""Name of the topic with the gateways' history of metrics, written by gateways only."""
OWN_TOPICS = frozenset({AUDIT_TOPIC, METRICS_TOPIC})
"""Topics that gateways write for themselves."""
CHECKPOINT_PARTS = 2
"""Number of parts of a checkpoint of a topic with an archive."""
SEGMENTS = "segments/"
COMPACTED = "compacted/"
STRAYS = "part-"
"""Prefix of files that Spark and delta-rs write into a table's directory before they commit. A refused commit leaves them."""
ICEBERG_BELOW = "_iceberg/"
"""Path of what is made for Iceberg's readers of a topic's table, below its root. Nothing needs it."""
SCHEDULED_BELOW = "scheduled/"
"""Path of a topic's delayed records, below its root."""
_MANIFEST_LIST = re.compile(r"([0-9]{20})-[A-Za-z0-9-]+\.avro")
_PINNED = re.compile(r"pin(?:-m)?-([0-9]{20})-[A-Za-z0-9-]+\.avro")
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint(?:\.0{9}1\.0{9}2)?\.parquet")
_ARCHIVE_PART = re.compile(r"([0-9]{20})\.checkpoint\.0{9}2\.0{9}2\.parquet")


def topic_root(topic: str) -> str:
    """Return the key prefix of the topic's table, ending with a slash."""
    return f"{TOPICS}{topic}/"


def scheduled_root(topic: str, topic_id: str) -> str:
    """Return the key prefix of the delayed records of one incarnation of a topic, ending with a slash."""
    return f"{topic_root(topic)}{SCHEDULED_BELOW}{topic_id}/"


def journal_root(journal: int) -> str:
    """Return the key prefix of a journal's table, ending with a slash."""
    return f"{JOURNALS}{journal}/"


def table_log_prefix(root: str) -> str:
    """Return the key prefix of the Delta log of the table at ``root``, ending with a slash."""
    return f"{root}_delta_log/"


def table_commit_key(root: str, version: int) -> str:
    """Return the key of one commit of the table at ``root``."""
    return f"{table_log_prefix(root)}{version:020d}.json"


def table_checkpoint_key(root: str, version: int) -> str:
    """Return the key of the checkpoint at ``version`` of the table at ``root``."""
    return f"{table_log_prefix(root)}{version:020d}.checkpoint.parquet"


def table_checkpoint_part_key(root: str, version: int, part: int) -> str:
    """Return the key of part 1 (the log's) or 2 (the archive's) of the checkpoint at ``version`` of a topic with an archive."""
    return f"{table_log_prefix(root)}{version:020d}.checkpoint.{part:010d}.{CHECKPOINT_PARTS:010d}.parquet"


def table_checkpoint_keys(root: str, version: int) -> tuple[str, str]:
    """Return the keys that a checkpoint at ``version`` may have: of one part, or of part 1 of two."""
    return table_checkpoint_key(root, version), table_checkpoint_part_key(root, version, 1)


def table_last_checkpoint_key(root: str) -> str:
    """Return the key of the hint that names the newest checkpoint of the table at ``root``."""
    return f"{table_log_prefix(root)}_last_checkpoint"


def table_cleaned_prefix(root: str) -> str:
    """Return the key prefix of log clean-up's notes for the table at ``root``."""
    return f"{root}_cleaned/"


def table_cleaned_key(root: str, version: int) -> str:
    """Return the key of the note that commits below ``version`` of the table at ``root`` may be gone."""
    return f"{table_cleaned_prefix(root)}{version:020d}"


def log_prefix(topic: str) -> str:
    """Return the key prefix of the topic's Delta log, ending with a slash."""
    return table_log_prefix(topic_root(topic))


def commit_key(topic: str, version: int) -> str:
    """Return the key of one commit of the topic."""
    return table_commit_key(topic_root(topic), version)


def checkpoint_key(topic: str, version: int) -> str:
    """Return the key of the topic's checkpoint at ``version``."""
    return table_checkpoint_key(topic_root(topic), version)


def last_checkpoint_key(topic: str) -> str:
    """Return the key of the hint that names the topic's newest checkpoint."""
    return table_last_checkpoint_key(topic_root(topic))


def cloning_prefix(topic: str) -> str:
    """Return the key prefix of the notes that files are being copied into the topic's table."""
    return f"{topic_root(topic)}_cloning/"


def iceberg_prefix(topic: str) -> str:
    """Return the key prefix of what is made for Iceberg's readers of the topic's table."""
    return f"{topic_root(topic)}{ICEBERG_BELOW}"


def iceberg_list_version(key: str) -> int | None:
    """Return the version in the key of a manifest list, but of no pinned version's; None for another key."""
    match = _MANIFEST_LIST.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def iceberg_pin_version(key: str) -> int | None:
    """Return the version in the key of a pinned version's manifest list, or of one of its manifests; None for another key."""
    match = _PINNED.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def segment_path(unique: str) -> str:
    """Return the path of a flushed segment, relative to the table, as in ``add.path``."""
    return f"{SEGMENTS}{unique}.parquet"


def compacted_path(unique: str) -> str:
    """Return the path of a rewritten segment, relative to the table, as in ``add.path``."""
    return f"{COMPACTED}{unique}.parquet"


def commit_version(key: str) -> int | None:
    """Return the version in a commit's key; None for another key."""
    match = _COMMIT.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def checkpoint_version(key: str) -> int | None:
    """Return the version in a checkpoint's key, of two parts in that of the first; None for another key.

    The second part is put before the first and deleted after it.
    """
    match = _CHECKPOINT.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def archive_part_version(key: str) -> int | None:
    """Return the version in the key of a checkpoint's second part; None for another key."""
    match = _ARCHIVE_PART.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None
