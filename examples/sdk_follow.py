"""Follow a topic from a given time on, and store the position.

``python examples/sdk_follow.py orders 2025-01-31T08:00:00+00:00``: positions are kept in ``orders.positions.json``, so that a
second run continues where the first ended. Ctrl-C ends it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from datetime import datetime
from pathlib import Path

from tidelog import Consumer, TopicPartition


def main(topic: str, since: str) -> None:
    """Print records until Ctrl-C."""
    file = Path(f"{topic}.positions.json")
    with Consumer(topic) as consumer:
        places = sorted(consumer.assignment())
        if file.exists():
            for partition, offset in json.loads(file.read_text()).items():
                consumer.seek(TopicPartition(topic, int(partition)), offset)
        else:
            since_ms = int(datetime.fromisoformat(since).timestamp() * 1000)
            offsets = consumer.offsets_for_times(dict.fromkeys(places, since_ms))
            for place, offset in offsets.items():
                if offset is None:
                    consumer.seek_to_end(place)
                else:
                    consumer.seek(place, offset)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                for record in consumer.poll(timeout_ms=5_000):
                    print(record.partition, record.offset, record.key, record.value, flush=True)
                # Once the records are processed: after a crash the last few come again, and none is missing.
                positions = {place.partition: consumer.position(place) for place in places}
                file.write_text(json.dumps(positions))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
