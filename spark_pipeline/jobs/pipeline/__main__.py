"""``python -m spark_pipeline.jobs.pipeline``: a pipeline as a process; ``spark-submit`` of this file runs it on a cluster."""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # Nothing has begun yet, so Ctrl-C may end the process immediately, without a traceback from an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # tidelog/programs.py blocks it until here

import argparse
import sys
import threading
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

from pyspark.errors import PySparkException

from log_format.errors import StoreError, TidelogError
from spark_pipeline.jars import JarsUnavailable
from spark_pipeline.java import JavaMissing
from spark_pipeline.jobs.pipeline.report import JsonReport, TextReport
from spark_pipeline.jobs.pipeline.run import Pipeline
from spark_pipeline.jobs.pipeline.settings import MAX_OFFSETS_PER_TRIGGER, Settings, read_settings
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.session import LOCAL_CHECKPOINTS, session

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""Characters shown of an error of Spark."""

_EXAMPLES: Final = """\
examples:
  take what is there and end:
    python -m spark_pipeline.jobs.pipeline --store ./data --topic flights --output ./lake --available-now \\
        --schema 'carrier STRING NOT NULL, flight INT NOT NULL, dep_delay DOUBLE'
  run on, with checks and aggregates from a file:
    python -m spark_pipeline.jobs.pipeline --config pipeline.toml
  on a cluster:
    spark-submit --py-files tidelog.zip spark_pipeline/jobs/pipeline/__main__.py --config pipeline.toml

Run it again, and it goes on where it was, however it ended. One run at a time for an output. docs/pipeline.md has the settings.
"""

QUIET: Final = {"spark.python.unix.domain.socket.enabled": "false"}
"""Setting against stack traces of Spark's Python processes, several per micro-batch, which end badly over such sockets."""


def main(arguments: list[str] | None = None) -> int:
    """Run the pipeline, and return the exit status: 0 when it ended as requested, 1 when it failed, 2 for wrong settings."""
    chosen = _parser().parse_args(arguments)
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        settings = read_settings(chosen.config, _options(chosen))
        return _run(settings, chosen, stopping)
    except OptionRefused as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    except (TidelogError, StoreError, JavaMissing, JarsUnavailable, ValueError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    except PySparkException as problem:
        sys.stderr.write(f"{str(problem).strip()[:MESSAGE_CHARACTERS_MAX]}\n")
        return 1


def _run(settings: Settings, chosen: argparse.Namespace, stopping: threading.Event) -> int:
    report = JsonReport() if chosen.json else TextReport()
    config = QUIET | (LOCAL_CHECKPOINTS if urlsplit(settings.output).scheme == "file" else {})
    s3 = next((place for place in (settings.output, settings.store) if place.startswith("s3")), settings.store)
    spark = session(s3, app_name=f"pipeline {settings.topic}", master=chosen.master, config=config)
    try:
        pipeline = Pipeline(spark, settings, report)
        trigger = None if chosen.available_now else chosen.trigger
        ended = pipeline.run(trigger=trigger, stopping=stopping)
        report.event("finished" if ended else "stopped")
    finally:
        spark.stop()
    return 0


def _options(chosen: argparse.Namespace) -> dict[str, object]:
    names = ("store", "topic", "output", "dead_letter_topic", "schema", "schema_file", "starting_offsets", "group")
    return {name: getattr(chosen, name) for name in (*names, "max_offsets_per_trigger")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidelog pipeline",
        description="A topic of JSON to a typed Delta table and aggregates, each record once; what does not fit goes to a "
        "dead-letter topic. Options win over the file.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--config", metavar="FILE", help="settings as TOML: a path or s3://…")
    add("--store", help="where the topics are: a directory, file:///directory or s3://bucket/prefix")
    add("--topic", help="the topic to read")
    add("--output", metavar="PLACE", help="a directory or s3://…; tables and checkpoints are made below")
    add("--schema", metavar="DDL", help="the columns: 'name TYPE [NOT NULL], …'")
    add("--schema-file", metavar="FILE", help="the columns as JSON Schema")
    add("--dead-letter-topic", metavar="TOPIC", help="default: <topic>.dead-letters; made when it is not there")
    add(
        "--starting-offsets", metavar="OFFSETS", help="where a new pipeline begins: earliest (default), latest, or JSON"
    )
    limit = f"records of a micro-batch (default {MAX_OFFSETS_PER_TRIGGER:,})"
    add("--max-offsets-per-trigger", type=int, metavar="N", help=limit)
    add("--group", help="show the progress as this consumer group's")
    add(
        "--available-now",
        action="store_true",
        help="take what is there, then end (default: run until SIGTERM or Ctrl-C)",
    )
    add("--trigger", default="1 second", metavar="INTERVAL", help="least time between two micro-batches (1 second)")
    add("--master", help="a Spark master (default: what spark-submit says, else local[*])")
    add("--json", action="store_true", help="a JSON object for each step on standard output")
    return parser


if __name__ == "__main__":
    sys.exit(main())
