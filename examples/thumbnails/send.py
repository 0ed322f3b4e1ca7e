"""Create the topics and the queue, and send images: some grey, some damaged, each with its kind as a header.

python examples/thumbnails/send.py --images 200
"""

from __future__ import annotations

import argparse
import random

from images import picture

from tidelog import Admin, Producer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--url", help="the gateway; else TIDELOG_URL")
    given = parser.parse_args()
    with Admin(given.url) as admin:
        for name, partition_count in (("images", 2), ("thumbnails", 2), ("images-dead", 1)):
            admin.create_topic(name, partition_count, exist_ok=True)
        admin.create_queue(
            "thumbnailer",
            ["images"],
            start="earliest",
            lock_ms=10_000,
            max_deliveries=4,
            backoff_ms=[200, 1_000],
            dead_letter_topic="images-dead",
        )
    dice = random.Random(1)
    with Producer(given.url) as producer:
        for number in range(given.images):
            grey, damaged = number % 10 == 3, number % 25 == 7
            image = picture(dice.randrange(60, 120), dice.randrange(40, 90), number, grey=grey)
            kind = "grey" if grey else "colour"
            producer.send("images", image[:-9] if damaged else image, key=f"image-{number}", headers={"kind": kind})
    print(f"{given.images} images sent.")


if __name__ == "__main__":
    main()
