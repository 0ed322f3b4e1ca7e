"""Worker: receive images from the queue, and send a PNG of each to the topic ``thumbnails``. Start as many as you like.

python examples/thumbnails/work.py            # colour only: grey images become dead letters
python examples/thumbnails/work.py --grey     # the next version, which knows them
"""

from __future__ import annotations

import argparse
import random
import signal

from images import NotAnImage, thumbnail

from tidelog import Producer, QueueConsumer, QueueRecord


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grey", action="store_true")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--fails", type=float, default=0.05, help="how often the disk is full, for a moment")
    parser.add_argument("--idle-ms", type=float, help="end after so long without work; else on Ctrl-C")
    parser.add_argument("--url", help="the gateway; else TIDELOG_URL")
    given = parser.parse_args()
    kinds = (b"P5", b"P6") if given.grey else (b"P6",)
    counts = {"made": 0, "rejected": 0, "failed": 0}
    dice = random.Random(2)

    with (
        Producer(given.url) as producer,
        QueueConsumer("thumbnailer", bootstrap_servers=given.url, consumer_timeout_ms=given.idle_ms) as queue,
    ):

        def handle(record: QueueRecord) -> None:
            if dice.random() < given.fails:
                counts["failed"] += 1
                raise OSError("no space left on the device")  # released: it comes again after the queue's back-off
            try:
                made = thumbnail(record.value or b"", 32, kinds)
            except NotAnImage as error:
                counts["rejected"] += 1
                record.reject(str(error))  # a retry would not help
                return
            # Stored before the record is accepted: after a crash a thumbnail is made again, and none is missing.
            producer.send("thumbnails", made, key=record.key, headers=dict(record.headers)).result()
            counts["made"] += 1

        signal.signal(signal.SIGINT, lambda *_: queue.stop())
        queue.run(handle, workers=given.workers)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))


if __name__ == "__main__":
    main()
