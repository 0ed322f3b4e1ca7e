"""The example that shares work through a queue: failures come again, what can't work is a dead letter, and is redriven."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_process import running_gateway
from tests.support.loaded import loaded
from tidelog import Admin, Consumer, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "thumbnails"


def _run(name: str, *options: str) -> None:
    command = [sys.executable, str(EXAMPLE / f"{name}.py"), *options]
    subprocess.run(command, check=True, timeout=120)


def _records(url: str, topic: str) -> list[Record]:
    with Consumer(topic, bootstrap_servers=url, consumer_timeout_ms=1_000) as consumer:
        return list(consumer)


def test_a_thumbnail_is_a_png() -> None:
    """Of the right size, every nth pixel; other kinds and damaged images are refused."""
    images = loaded(EXAMPLE / "images.py")
    made = images.thumbnail(images.picture(80, 40, 1), 32, (b"P6",))
    assert made[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(made[16:20], "big"), int.from_bytes(made[20:24], "big")) == (27, 14)
    at = made.index(b"IDAT")
    pixels = zlib.decompress(made[at + 4 : at + 4 + int.from_bytes(made[at - 4 : at], "big")])
    assert len(pixels) == 14 * (1 + 27 * 3)
    for wrong in (images.picture(8, 8, 1, grey=True), images.picture(8, 8, 1)[:-1], b"GIF89a"):
        with pytest.raises(images.NotAnImage):
            images.thumbnail(wrong, 32, (b"P6",))


@pytest.mark.timeout(280)
def test_work_is_shared_retried_and_redriven(spark: SparkSession, tmp_path: Path) -> None:
    """Every good image has a thumbnail in the end, however often its handler failed; Spark counts the same."""
    store = (tmp_path / "store").as_uri()
    with running_gateway(tmp_path / "store", tmp_path / "log") as gateway, Admin(gateway.url) as admin:
        url = ["--url", gateway.url]
        _run("send", "--images", "100", *url)
        _run("work", "--fails", "0.2", "--idle-ms", "4000", *url)
        grey = {f"image-{number}".encode() for number in range(100) if number % 10 == 3}
        damaged = {f"image-{number}".encode() for number in range(100) if number % 25 == 7}
        good = {f"image-{number}".encode() for number in range(100)} - grey - damaged
        dead = _records(gateway.url, "images-dead")
        reasons = {record.key: dict(record.headers)["tidelog-dlq-reason"] for record in dead}
        assert grey | damaged <= {*reasons}
        assert {reasons[key] for key in grey} <= {b"P5 is not supported", b"max_deliveries"}
        made = {record.key for record in _records(gateway.url, "thumbnails")}
        assert made == good - {*reasons}
        assert sum(each.lag for each in admin.describe_queue("thumbnailer").partitions) == 0

        assert admin.redrive_queue("thumbnailer") == len(dead)
        _run("work", "--grey", "--fails", "0", "--idle-ms", "4000", *url)
        made = {record.key for record in _records(gateway.url, "thumbnails")}
        assert made == good | grey
        last = _records(gateway.url, "images-dead")[len(dead) :]
        assert {record.key for record in last} == damaged
        assert admin.redrive_queue("thumbnailer", max_records=1) == 1

        counts = {row["kind"]: row for row in loaded(EXAMPLE / "count.py").counted(spark, store).collect()}
        assert {kind: (row["images"], row["thumbnails"]) for kind, row in counts.items()} == {
            "colour": (90, len(good)),
            "grey": (10, 10),
        }
        assert sum(row["dead_letters"] for row in counts.values()) == len(dead) + len(last)
