"""``make torture``: the long run, Spark and deltalake as further witnesses. Exit code 0 only if nothing was lost or doubled."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.torture.tortured.checker import Log
from tests.torture.tortured.driver_run import Plan as DriverPlan
from tests.torture.tortured.driver_run import torture_drivers
from tests.torture.tortured.final_log import by_deltalake, by_spark
from tests.torture.tortured.pipeline_run import PipelineRun
from tests.torture.tortured.queue_run import Plan as QueuePlan
from tests.torture.tortured.queue_run import torture_queues
from tests.torture.tortured.rights_run import Plan as RightsPlan
from tests.torture.tortured.rights_run import torture_rights
from tests.torture.tortured.run import TOPICS, Plan, torture
from tests.torture.tortured.service import STORE, Service
from tests.torture.tortured.spark_sink_run import SparkSinkRun
from tests.torture.tortured.table_readers import by_table_readers
from tests.torture.tortured.typed_run import Plan as TypedPlan
from tests.torture.tortured.typed_run import torture_typed
from tests.torture.tortured.upkeep_run import Plan as UpkeepPlan
from tests.torture.tortured.upkeep_run import torture_upkeep

MODE_SECONDS = 3.0
KAFKA_CLIENTS = 2
RETENTIONS = 3
"""A run with maintenance lasts so many times as long as replaced files stay, which is longer than Spark's streams should lag."""


def _read_as(service: Service) -> dict[str, Log]:
    os.environ.update(service.environment)
    from spark_pipeline import session

    spark = session(STORE, app_name="torture")
    try:
        read = {"deltalake": by_deltalake(TOPICS, service.environment), "Spark": by_spark(spark, TOPICS)}
        return read | by_table_readers(service, TOPICS)
    finally:
        spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--modes", action="store_true", help="move topics between own commits and journals, too")
    parser.add_argument("--kafka", action="store_true", help="clients by Kafka's protocol, too")
    parser.add_argument("--queues", action="store_true", help="queues and delayed records, and nothing else")
    parser.add_argument(
        "--rights", action="store_true", help="rights that change and tokens that rotate, and nothing else"
    )
    parser.add_argument("--typed", action="store_true", help="typed topics and schemas that evolve, and nothing else")
    parser.add_argument("--maintenance", action="store_true", help="kill maintenance, and nothing else")
    parser.add_argument("--workers", choices=("local", "spark"), default="local", help="of maintenance")
    parser.add_argument(
        "--spark", action="store_true", help="kill Spark's drivers and gateways; SECONDS does not count"
    )
    parser.add_argument("--pipeline", action="store_true", help="kill a pipeline's driver; SECONDS does not count")
    parser.add_argument("--restarts", type=int, default=20, help="of drivers, with --spark and --pipeline")
    parser.add_argument(
        "--planted",
        action="store_true",
        help="ignore what was committed, lose records, or be blind to rights, and so fail",
    )
    return parser.parse_args()


def main() -> int:
    """Run and report as Markdown."""
    arguments = _arguments()
    directory = Path(tempfile.mkdtemp(prefix="tidelog-torture-"))
    show = (lambda text: print(f"\r{text:<80}", end="", file=sys.stderr)) if sys.stderr.isatty() else lambda text: None
    drivers = arguments.spark or arguments.pipeline
    if drivers:
        driver_plan = DriverPlan(restarts=arguments.restarts, seed=arguments.seed, planted=arguments.planted)
        kind = SparkSinkRun if arguments.spark else PipelineRun
        outcome = torture_drivers(kind, driver_plan, directory, progress=show)
    elif arguments.maintenance:
        upkeep = UpkeepPlan(
            seconds=arguments.seconds,
            seed=arguments.seed,
            workers=arguments.workers,
            planted=arguments.planted,
            deleted_file_retention_ms=int(arguments.seconds * 1000 / RETENTIONS),
        )
        outcome = torture_upkeep(upkeep, directory, progress=show)
    elif arguments.queues:
        queue_plan = QueuePlan(seconds=arguments.seconds, seed=arguments.seed)
        outcome = torture_queues(queue_plan, directory, progress=show)
    elif arguments.typed:
        typed_plan = TypedPlan(seconds=arguments.seconds, seed=arguments.seed, planted=arguments.planted)
        outcome = torture_typed(typed_plan, directory, progress=show)
    elif arguments.rights:
        rights_plan = RightsPlan(seconds=arguments.seconds, seed=arguments.seed, planted=arguments.planted)
        outcome = torture_rights(rights_plan, directory, progress=show)
    else:
        mode_seconds = MODE_SECONDS if arguments.modes else None
        plan = Plan(
            seconds=arguments.seconds,
            seed=arguments.seed,
            mode_seconds=mode_seconds,
            streams=arguments.modes,
            kafka_clients=KAFKA_CLIENTS if arguments.kafka else 0,
        )
        outcome = torture(plan, directory, read_as=_read_as, progress=show)
    length = f"{arguments.restarts} drivers" if drivers else f"{arguments.seconds:.0f} s of faults"
    print(f"\nseed {arguments.seed}, {length}, {outcome.seconds:.0f} s in all\n")
    print("| what | count |\n|---|---|")
    for name, count in outcome.counts.items():
        print(f"| {name} | {count:,} |")
    for name, agrees in outcome.others_agree.items():
        print(f"| {name} sees the same log | {'yes' if agrees else 'NO'} |")
    print(f"| contradictions | {len(outcome.contradictions)} |")
    for found in outcome.contradictions:
        print(f"* {found}")
    print(f"\nHistory and logs: {directory}", file=sys.stderr)
    return 0 if not outcome.contradictions and all(outcome.others_agree.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
