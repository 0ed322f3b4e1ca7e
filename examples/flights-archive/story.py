"""A year of flights in one topic: kept in the archive, ordered by carrier and day, queried, cloned, and one passenger erased.

``python story.py --store DIRECTORY [--url URL] [--flights N] [--spark]``: the store is that of the gateway, and empty of flights.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import duckdb
from deltalake import DeltaTable, QueryBuilder

from tidelog import Admin, Consumer, Producer

TOPIC, CLONE = "flights", "flights-before"
SCHEMA = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "day", "type": "int"},
        {"name": "flight", "type": "int"},
        {"name": "passenger", "type": "string"},
        {"name": "seat", "type": "string"},
    ],
}
CARRIERS = ("AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV", "9E")
PASSENGERS = 500
PERSON = "passenger-7"
QUERY = ("UA", 200)
"""The carrier and the day that are asked for."""


def flights(count: int) -> Iterator[dict[str, Any]]:
    """Yield what passengers flew in a year, in order of days."""
    chance = random.Random(7)
    for number in range(count):
        yield {
            "carrier": chance.choice(CARRIERS),
            "day": 1 + number * 365 // count,
            "flight": chance.randrange(1, 9_000),
            "passenger": f"passenger-{chance.randrange(PASSENGERS)}",
            "seat": f"{chance.randrange(1, 40)}{chance.choice('ABCDEF')}",
        }


def send(url: str, rows: Iterator[dict[str, Any]]) -> None:
    """Send flights; the key is the passenger."""
    with Producer(bootstrap_servers=url, value_serializer=lambda row: json.dumps(row).encode()) as producer:
        for row in rows:
            producer.send(TOPIC, row, key=row["passenger"].encode())


def tidelog(*arguments: str) -> None:
    """Run a command of ``tidelog``, which must succeed, and print the end of what it says."""
    print("$ tidelog", *arguments)
    done = subprocess.run([sys.executable, "-m", "tidelog", *arguments], capture_output=True, text=True, check=False)
    print(done.stdout or done.stderr.splitlines()[-1])
    if done.returncode:
        raise SystemExit(done.stderr)


def archive(admin: Admin, store: str, url: str) -> None:
    """Take the year out of the log; its rows stay in the table. The newest segment of a partition stays in the log, too."""
    ends = {one.partition: one.high_watermark for one in admin.describe_topic(TOPIC).partitions}
    tidelog("maintain", "--store", store, "--once", "--workers", "local")
    admin.delete_records(TOPIC, ends)
    send(url, flights(40))
    tidelog("maintain", "--store", store, "--once", "--workers", "local")


def by_duckdb(path: str) -> int:
    """Return how many passengers flew with a carrier on a day, of whom all columns are read, by DuckDB."""
    files = DeltaTable(path).file_uris()
    with duckdb.connect() as database:
        query = f"select * from read_parquet({files}) where data.carrier = ? and data.day = ?"
        return len(database.execute(query, QUERY).fetchall())


def by_deltalake(path: str) -> int:
    """Return the same, by deltalake's own engine."""
    where = f"data['carrier'] = '{QUERY[0]}' and data['day'] = {QUERY[1]}"
    asked = QueryBuilder().register("flights", DeltaTable(path)).execute(f"select * from flights where {where}")
    return sum(batch.num_rows for batch in asked)


def by_spark(path: str) -> int:
    """Return the same, by Spark."""
    from spark_pipeline import session  # noqa: PLC0415 - without --spark no Spark is needed

    table = session("/").read.format("delta").load(path)
    return len(table.where(f"data.carrier = '{QUERY[0]}' and data.day = {QUERY[1]}").collect())


def ask(readers: list[Callable[[str], int]], path: str) -> set[int]:
    """Ask each reader twice, print what its second query has read of files, and return the answers."""
    answers = set()
    for reader in readers:
        reader(path)
        before = bytes_read()
        answers.add(reader(path))
        print(f"{reader.__name__:<14} {answers}: {(bytes_read() - before) / 1024:,.0f} KiB")
    return answers


def bytes_read() -> int:
    """Return the bytes that this process has read by system calls (Linux); 0 elsewhere. Spark's are in another process."""
    path = Path("/proc/self/io")
    return int(path.read_text().split()[1]) if path.exists() else 0


def rows_of(path: str, person: str) -> list[bytes | None]:
    """Return the values of a person's rows in a table."""
    key = f"X'{person.encode().hex()}'"
    asked = QueryBuilder().register("flights", DeltaTable(path)).execute(f"select value from flights where key = {key}")
    return [value for batch in asked for value in batch["value"].to_pylist()]


class Traffic:
    """Producers and consumers that go on: ``lost`` says what was acknowledged and not read."""

    def __init__(self, url: str) -> None:
        self._url, self._stop = url, threading.Event()
        self.sent: list[tuple[int, int]] = []
        self.read: list[tuple[int, int]] = []
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End: the consumer reads what was sent."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def lost(self) -> set[tuple[int, int]]:
        """Places of records that nobody read."""
        return set(self.sent) - set(self.read)

    def _produce(self) -> None:
        with Producer(bootstrap_servers=self._url) as producer:
            while not self._stop.wait(0.05):
                value = {**next(flights(1)), "passenger": "somebody"}
                at = producer.send(TOPIC, json.dumps(value).encode(), key=b"somebody").result()
                self.sent.append((at.partition, at.offset))

    def _consume(self) -> None:
        with Consumer(TOPIC, bootstrap_servers=self._url, consumer_timeout_ms=1_000) as consumer:
            while True:
                self.read += [(record.partition, record.offset) for record in consumer]
                if self._stop.is_set() and not self.lost:
                    return


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--flights", type=int, default=300_000)
    parser.add_argument("--spark", action="store_true", help="query by Spark, too")
    given = parser.parse_args()
    path = f"{given.store}/topics/{TOPIC}"
    readers: list[Callable[[str], int]] = [by_duckdb, by_deltalake, *([by_spark] if given.spark else [])]
    with Admin(given.url) as admin:
        admin.schemas().register(f"{TOPIC}-value", json.dumps(SCHEMA))
        config = {
            "value.schema": f"{TOPIC}-value",
            "table.retention.ms": -1,
            # So small that a short year fills several files; leave both away for a real one.
            "table.file.bytes": 1_048_576,
            "compression.type": "uncompressed",
            "erase.keep": "nothing",
            "erase.grace.ms": 0,
        }
        admin.create_topic(TOPIC, partition_count=2, config=config)
        send(given.url, flights(given.flights))
        archive(admin, given.store, given.url)
        found = ask(readers, path)

        admin.alter_topic(TOPIC, config={"table.cluster.by": "data.carrier,data.day"})
        tidelog("maintain", "--store", given.store, "--once", "--workers", "local")
        if ask(readers, path) != found or len(found) != 1:
            raise SystemExit("the readers differ")

        admin.clone_topic(TOPIC, CLONE)
        with Traffic(given.url) as traffic:
            asked = admin.erase(TOPIC, [PERSON])
            print(f"asked {TOPIC}; clones that need a request of their own: {asked.clones}")
            for clone in asked.clones or ():
                admin.erase(clone, [PERSON])
            tidelog("maintain", "--store", given.store, "--once", "--workers", "local")
        print(f"{len(traffic.sent)} flights meanwhile, of which consumers lack {len(traffic.lost)}")
        for topic in (TOPIC, CLONE):
            if rows_of(f"{given.store}/topics/{topic}", PERSON):
                raise SystemExit(f"{topic} has rows of {PERSON}")
            tidelog("verify", topic, "--erased", PERSON, "--store", given.store)


if __name__ == "__main__":
    main()
