"""A stateful application of Faust: an agent counts records by key in a table, whose changelog is a topic.

Arguments: bootstrap servers, prefix of topics and group, directory, processing guarantee. It runs until it is ended.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import faust


def main(servers: str, prefix: str, directory: str, guarantee: str) -> None:
    """Goes on until a signal."""
    application = faust.App(
        f"{prefix}.faust",
        broker=f"kafka://{servers}",
        store="memory://",
        datadir=directory,
        processing_guarantee=guarantee,
        topic_partitions=3,
        topic_replication_factor=1,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=10.0,
        broker_commit_interval=1.0,
        web_enabled=False,
    )
    given = application.topic(f"{prefix}.in", key_type=str, value_type=str, value_serializer="raw")
    counts = application.Table("counts", default=int, partitions=3)

    async def count(stream: Any) -> AsyncIterator[None]:
        async for event in stream.events():
            counts[event.key] += 1
            yield

    application.agent(given, name="count")(count)
    faust.Worker(application, loglevel="INFO", redirect_stdouts=False).execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:])
