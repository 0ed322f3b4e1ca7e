"""Which tests share a worker of pytest-xdist, and in which order workers take them.

A unit of work is a file: what its tests have in common, such as a gateway of module scope, is started once. All that share
the one Spark session are one unit, and so are those of each of ``KINDS``. Tests of ``EACH_ALONE`` share nothing, and each is a
unit.

Tests that wait for processes come first, those that keep a processor busy last. Of five workers two begin at the end, so that
some tests wait while others compute. The third and the fifth of five are patient: they take what can wait (Spark, ``PATIENT``),
and no others, and give way to the rest. So tests that watch the time hardly notice them. The others leave these to them until
they have nothing else: a worker that ends early leaves a processor idle.

Groups of pytest-xdist's own are absent: pytest 9.2 takes their mark without a word and xdist 3.8 no longer sees it
(pytest-dev/pytest-xdist#1386).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

EACH_ALONE = ("tests/simulation/", "tests/torture/")
KINDS = ("least-rights", "random-forwarding")
"""Of gateways at which the contract is proved once more: several that stay until the worker ends."""
SPARK = "Spark"
"""The unit of all that share the session."""
WAITING = ("conformance", "integration", "console")
"""Folders whose tests wait more than they compute, those with long units first."""
COMPUTING = ("tests/golden/", "tests/property/", "tests/simulation/", "tests/stateful/")
"""Tests whose time is a clock of their own: they fill what others leave of the processors."""
PATIENT = (
    "tests/torture/",
    "tests/integration/pipeline/test_cluster.py",
    "tests/integration/readers/",
    "tests/integration/faults/outage/",
    "tests/integration/faults/test_retry_after_kill.py",
    "tests/infrastructure/",
    "tests/conformance/test_object_store.py",
    *COMPUTING,
    *(
        f"tests/integration/test_{name}.py"
        for name in (
            "collect",
            "kill_gateway",
            "maintenance_kills",
            "packaging",
            "drills",
            "history_readers",
            "cli_examples",
            "workers",
            "readme",
            "rolling_upgrade",
            "spark_demo",
        )
    ),
)
"""Tests that compute, begin processes or wait for them, and judge by what happened: a busy machine only makes them take longer.
They are taken from both ends. So what computes comes where others wait, and in the end, in small units."""
NICE = 5
"""Of the workers that take them, and of all that they start."""
TESTS = Path(__file__).resolve().parents[1]


def turn(path: Path) -> float:
    """When a file's tests are taken: lower is earlier."""
    if _has_the_session(str(path)):
        return -1
    place = path.relative_to(TESTS.parent).as_posix()
    if place.startswith(PATIENT):
        first = next(number for number, start in enumerate(PATIENT) if place.startswith(start))
        return len(WAITING) + first / len(PATIENT)
    folder = place.split("/")[1]
    return WAITING.index(folder) if folder in WAITING else len(WAITING) + 1


@cache
def _has_the_session(file: str) -> bool:
    """Whether its tests ask for the fixture ``spark``, whose type every one of them names."""
    return "SparkSession" in Path(file).read_text()


class FilesAndSpark(LoadFileScheduling):  # type: ignore[misc]
    """Units in the order of collection, from both ends."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(EACH_ALONE):
            return nodeid
        if nodeid.startswith("tests/conformance/") and (kind := next((one for one in KINDS if one in nodeid), None)):
            return kind
        file: str = super()._split_scope(nodeid)
        return SPARK if _has_the_session(file) else file

    def _assign_work_unit(self, node: Any) -> None:
        worker = node.gateway.id
        units = list(reversed(self.workqueue) if _begins_at_the_end(worker) else self.workqueue)
        unit = next((one for one in units if _can_wait(one) == is_patient(worker)), units[0])
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if is_patient(node.gateway.id) and not any(map(_can_wait, self.workqueue)) and not node.shutting_down:
            node.shutdown()
        else:
            super()._reschedule(node)


def _can_wait(unit: str) -> bool:
    return unit == SPARK or unit.startswith(PATIENT)


def is_patient(worker: str) -> bool:
    """Whether the worker with this id takes only what can wait."""
    return _number(worker) % 5 in {2, 4}


def _begins_at_the_end(worker: str) -> bool:
    return _number(worker) % 5 in {1, 4}


def _number(worker: str) -> int:
    return int(worker.removeprefix("gw"))
