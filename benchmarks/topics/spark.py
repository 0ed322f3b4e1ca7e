"""A micro-batch stream of ``format("tidelog")`` over many topics: from a record's acknowledgement to its row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import numpy as np

from benchmarks.harness.percentiles import Array, percentile
from benchmarks.topics.answers import Answers
from benchmarks.topics.open_loop import Load, Plan
from benchmarks.topics.outcome import Options, Outcome, acknowledged
from benchmarks.topics.schedule import Stream
from benchmarks.topics.site import Run, Site, opened

TOPICS: Final = 100
WARM_UP_SECONDS: Final = 10.0
"""At least, while the JVM compiles."""
ARRIVAL_SECONDS_MAX: Final = 10.0
P50_MS_MAX: Final = 500


def measure(case: str, run: Run, options: Options) -> Outcome:
    """Send one record a second and topic to one gateway, and follow them by Spark."""
    stream = Stream(topics=options.topics or TOPICS, per_second=1)
    warm_up = max(WARM_UP_SECONDS, options.warm_up_seconds)
    seconds = warm_up + options.seconds
    with opened(run) as site:
        names = site.make_topics(stream.topics)
        # Spark's first micro-batch needs a row.
        Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=1)).result()
        with _rows(site, names) as lines:
            load = Load(Plan(ports=site.ports, topics=names, streams=(stream,), seconds=seconds))
            answers, _ = load.result()
            site.sample_at(load.ends_at + ARRIVAL_SECONDS_MAX)
        seen = seen_at(lines)
    start, end = load.starts_at + warm_up, load.ends_at
    waits, missing_count = waits_ms(answers.between(start, end), names, seen)
    figures = {
        **acknowledged(answers, start, end),
        "acknowledgement to row, p50 ms": percentile(waits, 0.5),
        "acknowledgement to row, p99 ms": percentile(waits, 0.99),
        "rows not seen": missing_count,
    }
    wanted = {"acknowledgement to row, p50 ms": P50_MS_MAX, "rows not seen": 0}
    return Outcome(case=case, run=run, figures=figures, wanted=wanted)


def seen_at(lines: list[str]) -> dict[tuple[str, int], float]:
    """Return when Spark first had each row, by topic and offset."""
    found: dict[tuple[str, int], float] = {}
    for line in lines:
        if line.startswith("["):
            at, rows = json.loads(line)
            for topic, offset in rows:
                found.setdefault((topic, offset), at)
    return found


def waits_ms(answers: Answers, names: tuple[str, ...], seen: dict[tuple[str, int], float]) -> tuple[Array, int]:
    """Return ms from each record's acknowledgement to its row, and the number of rows that did not come."""
    kept = answers.acknowledged()
    columns = (kept.topic.tolist(), kept.offset.tolist(), kept.done.tolist())
    waits = [
        (seen[names[topic], offset] - done) * 1000
        for topic, offset, done in zip(*columns, strict=True)
        if (names[topic], offset) in seen
    ]
    return np.array(waits), len(kept.done) - len(waits)


@contextmanager
def _rows(site: Site, names: tuple[str, ...]) -> Iterator[list[str]]:
    """Run the stream; its lines are complete behind the ``with`` block. Raises ``RuntimeError`` if it does not start."""
    program = [sys.executable, "-P", str(Path(__file__).with_name("spark_rows.py")), site.uri, ",".join(names)]
    environment = os.environ | {"PYTHONPATH": str(site.run.tree)}
    lines: list[str] = []
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _until_ready(process.stdout)
        # The pipe is emptied all the time: a full one would stop Spark.
        reading = threading.Thread(target=lines.extend, args=(process.stdout,))
        reading.start()
        try:
            yield lines
        finally:
            process.stdin.close()
            reading.join()


def _until_ready(stream: IO[str]) -> None:
    for line in stream:
        if line == "ready\n":
            return
    raise RuntimeError("Spark's stream did not start")
