"""A dataflow of Bytewax: records are numbered by key. It ends at the end of its topic, and goes on there in the next run.

Arguments: bootstrap servers, prefix of topics, directory of its recovery store.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main


def numbered(count: int | None, message: Any) -> tuple[int, Any]:
    """The record with its number among those of its key."""
    count = (count or 0) + 1
    value = json.dumps({"value": message.value.decode(), "count": count}).encode()
    return count, KafkaSinkMessage(message.key, value)


def main(servers: str, prefix: str, directory: str) -> None:
    """One run."""
    if not Path(directory).exists():
        Path(directory).mkdir()
        init_db_dir(Path(directory), 1)
    flow = Dataflow("numbered")
    given = kafka.input("in", flow, brokers=[servers], topics=[f"{prefix}.in"], tail=False)
    keyed = op.key_on("keyed", given.oks, lambda message: message.key.decode())
    counted = op.stateful_map("counts", keyed, numbered)
    kafka.output("out", op.key_rm("records", counted), brokers=[servers], topic=f"{prefix}.counts")
    recovery = RecoveryConfig(directory)
    cluster_main(flow, [], 0, epoch_interval=timedelta(seconds=1), recovery_config=recovery)


if __name__ == "__main__":
    main(*sys.argv[1:])
