"""The pipeline on a Spark cluster whose machines have nothing of ours, one of which is lost in the middle.

A standalone master and two workers from pyspark's own jars, on 127.0.0.1. Their Python has what others made (pyarrow, msgspec, …)
and none of our packages: those come as the wheel, with ``--py-files``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import deltalake
import psutil
import pyspark
import pytest

from spark_pipeline.jars import JarSet, ensure_jars
from spark_pipeline.java import java_executable
from tests.support.flight_topic import FlightTopic
from tests.support.java import FAST_START, INTERPRETED

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
OURS = ("tidelog", "gateway", "log_format", "compaction", "spark_pipeline")
SPARK_HOME = Path(pyspark.__file__).parent
SECONDS_MAX = 400


@dataclass(frozen=True, slots=True)
class Daemon:
    """A master or a worker."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, pattern: str) -> str:
        """The first group of what it says."""
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(pattern, self.log.read_text())
            if found is not None:
                return found.group(1)
            time.sleep(0.1)
        pytest.fail(f"{pattern} is not in {self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """As when the machine is gone: with all that it started."""
        family: list[subprocess.Popen[bytes] | psutil.Process] = [self.process, *_children(self.process.pid)]
        for process in family:
            process.kill()
        self.process.wait()


def _children(process_id: int) -> list[psutil.Process]:
    try:
        return psutil.Process(process_id).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python with the packages of this one but ours."""
    home = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=SECONDS_MAX)
    target = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.lstrip("_").startswith((*OURS, "editable")):
            (target / entry.name).symlink_to(entry)
    python = home / "bin" / "python"
    absent = f"import importlib.util, pyarrow; assert not any(map(importlib.util.find_spec, {OURS!r}))"
    subprocess.run([python, "-c", absent], check=True, cwd=tmp_path, timeout=SECONDS_MAX)
    return python


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The wheel, under a name that Spark takes for Python's."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS_MAX)
    (wheel,) = tmp_path.glob("*.whl")
    return wheel.rename(tmp_path / "tidelog.zip")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of the cluster's processes: no path to the checkout, and everything on the loopback address."""
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "TIDELOG_CACHE", "LANG") if name in os.environ}
    return kept | {
        "HOME": str(Path.home()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path / "spark"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": FAST_START,
        "SPARK_LAUNCHER_OPTS": FAST_START,
    }


@pytest.fixture
def cluster(tmp_path: Path, environment: dict[str, str]) -> Iterator[tuple[str, list[Daemon]]]:
    """The master's URL, and two workers of one core each."""
    java_executable()
    started: list[Daemon] = []

    def start(name: str, kind: str, *options: str) -> Daemon:
        log = tmp_path / f"{name}.log"
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *options],
                env=environment, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        started.append(Daemon(process, log))
        return started[-1]

    try:
        url = start("master", "master.Master", "--port", "0").wait_for(r"Starting Spark master at (\S+)")
        for number in range(2):
            directory = str(tmp_path / f"worker-{number}")
            start(f"worker-{number}", "worker.Worker", "--cores", "1", "--memory", "600m", "--work-dir", directory, url)
        for worker in started[1:]:
            worker.wait_for("Successfully registered with (master)")
        yield url, started[1:]
    finally:
        for daemon in reversed(started):
            daemon.kill()


def submit(url: str, arguments: list[str], directory: Path, environment: dict[str, str], **files: Path) -> Daemon:
    """The driver, by spark-submit from a directory with nothing but the program."""
    program = shutil.copy(ROOT / "spark_pipeline" / "jobs" / "pipeline" / "__main__.py", directory / "pipeline.py")
    settings = {
        "spark.pyspark.python": str(files["python"]),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": FAST_START,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", url, "--driver-memory", "512m"]
    command += ["--driver-java-options", INTERPRETED, "--py-files", str(files["packages"])]
    command += ["--jars", ",".join(map(str, ensure_jars(JarSet.DELTA)))]
    command += [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
    log = directory / "driver.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, program, *arguments], env=environment, cwd=directory, stdout=output, stderr=subprocess.STDOUT
        )
    return Daemon(process, log)


def rows_of(table: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", deltalake.DeltaTable(table).to_pyarrow_table().to_pylist())


@pytest.mark.timeout(900)
def test_a_worker_is_lost_and_nothing_else(
    cluster: tuple[str, list[Daemon]],
    environment: dict[str, str],
    bare_python: Path,
    packages: Path,
    flight_topic: FlightTopic,
    tmp_path: Path,
) -> None:
    """Every record is in silver or among the dead letters once, and the aggregates are those of all the rows."""
    flight_topic.flights(0, 150, bad_each=7)
    config = tmp_path / "pipeline.toml"
    config.write_text(
        f"""
        store = "{flight_topic.store}"
        topic = "flights"
        output = "{tmp_path / "lake"}"
        max_offsets_per_trigger = 50
        schema = "carrier STRING NOT NULL, flight INT NOT NULL, dep_delay DOUBLE, time_hour TIMESTAMP NOT NULL"
        [gold.delays]
        event_time = "time_hour"
        watermark = "30 hours"
        window = "1 hour"
        group_by = ["carrier"]
        unique = ["carrier", "flight", "time_hour"]
        columns = {{ flights = "count(*)", delay = "sum(dep_delay)" }}
        """
    )
    url, workers = cluster
    arguments = ["--config", str(config), "--available-now", "--json"]
    driver = submit(url, arguments, tmp_path, environment, python=bare_python, packages=packages)
    try:
        driver.wait_for(r'"event": "batch", .*"batch": (0)')
        workers[0].kill()
        assert driver.process.wait(SECONDS_MAX) == 0, driver.log.read_text()[-5000:]
    finally:
        driver.kill()
    said = driver.log.read_text()
    assert re.search('"event": "batch", .*"batch": 2', said)  # so it was lost in the middle
    assert re.search("Lost executor|worker lost", said)

    good = [number for number in range(150) if number % 7]
    silver = rows_of(str(tmp_path / "lake" / "silver"))
    assert sorted(row["flight"] for row in silver) == good
    letters = rows_of(f"{flight_topic.directory}/store/topics/flights.dead-letters")
    told = [{header["key"]: header["value"].decode() for header in letter["headers"]} for letter in letters]
    assert {each["tidelog.reason"] for each in told} == {"is not JSON"}
    places = [(row["_partition"], row["_offset"]) for row in silver]
    places += [(int(each["tidelog.partition"]), int(each["tidelog.offset"])) for each in told]
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(75)]
    by_hour = Counter(number % 24 for number in good)
    gold = rows_of(str(tmp_path / "lake" / "gold" / "delays"))
    found = {row["window_start"].hour: (row["carrier"], row["flights"], row["delay"]) for row in gold}
    assert len(gold) == len(found)
    assert found == {hour: ("UA", count, 1.5 * count) for hour, count in by_hour.items()}
