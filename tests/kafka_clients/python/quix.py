"""A stateful application of Quix Streams: records are counted by key, and by key in windows of a second.

Arguments: bootstrap servers, prefix of topics and group, directory of the state, processing guarantee. It runs until it is ended.
"""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application


def counted(value: str, state: Any) -> dict[str, Any]:
    """The value with its number among those of its key."""
    count = state.get("count", 0) + 1
    state.set("count", count)
    return {"value": value, "count": count}


def main(servers: str, prefix: str, state: str, guarantee: Any) -> None:
    """Goes on until a signal."""
    application = Application(
        servers,
        consumer_group=f"{prefix}.quix",
        auto_offset_reset="earliest",
        processing_guarantee=guarantee,
        state_dir=state,
        commit_every=20,
        commit_interval=1.0,
        loglevel="WARNING",
        # One that was killed is out of the group, and its transaction aborted, after so long.
        consumer_extra_config={"session.timeout.ms": 10_000},
        producer_extra_config={"transaction.timeout.ms": 10_000},
    )
    given = application.topic(f"{prefix}.in", key_deserializer="str", value_deserializer="str")
    values = application.dataframe(given)
    counts = values.apply(counted, stateful=True)
    counts.to_topic(application.topic(f"{prefix}.counts", key_serializer="str", value_serializer="json"))
    windows = values.tumbling_window(1000).count().current()
    windows.to_topic(application.topic(f"{prefix}.windows", key_serializer="str", value_serializer="json"))
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
