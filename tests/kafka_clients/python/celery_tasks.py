"""A Celery application whose tasks come by kombu's confluentkafka.

Arguments: bootstrap servers, prefix of queues, then ``send`` and two numbers, or ``work`` and a file: a worker that writes the
number of each task there, until it is ended.
"""

from __future__ import annotations

import sys
from pathlib import Path

from celery import Celery

SECONDS = 60


def main(servers: str, prefix: str, act: str, *given: str) -> None:
    """Sends tasks, or does them."""
    application = Celery(prefix, broker=f"confluentkafka://{servers}")
    application.conf.task_default_queue = f"{prefix}.tasks"
    application.conf.task_acks_late = True
    application.conf.worker_enable_remote_control = False  # the transport has no fanout

    def note(number: int) -> None:
        with Path(given[0]).open("a") as file:
            file.write(f"{number}\n")

    task = application.task(name="note")(note)
    if act == "send":
        for number in range(int(given[0]), int(given[1])):
            task.delay(number)
    else:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        application.worker_main(["worker", "--pool=solo", "--loglevel=WARNING", *quiet])


if __name__ == "__main__":
    main(*sys.argv[1:])
