"""Run the tests of ``catalog sync`` against a real Hive Metastore, and read a topic by its table's name in Spark.

The Metastore is that of Hive 2.3, whose classes Spark brings with PySpark; its database is Derby, in a temporary directory.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from log_format.stores import open_store
from log_format.topic.table_name import table_name
from spark_pipeline import session
from tests.support.catalog_bench import CatalogBench
from tests.support.served_catalogs import METASTORE, real_hive
from tests.support.server_process import START_SECONDS_MAX, free_port
from tests.support.topic_writer import TopicWriter
from tests.support.waiting import until

TESTS = Path("tests/unit/compaction/catalogs/test_catalogs.py")
NOT_REAL = "without_a_right or is_away or connection_that_failed"
"""Tests of what nobody can do to a real Metastore."""
TOPIC = "Orders.v2"
AT_MS = 1_763_683_200_123


@contextmanager
def metastore(directory: Path) -> Iterator[str]:
    """Yield the address of a Metastore whose database is in the directory."""
    port = free_port()
    settings = {
        "hive.async.log.enabled": "false",  # else it needs a library that Spark does not bring
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory / 'metastore'};create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(directory / "warehouse"),
    }
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{Path(pyspark.__file__).parent}/jars/*"]
    command += [f"-D{name}={value}" for name, value in settings.items()]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with (directory / "metastore.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"thrift://127.0.0.1:{port}"
            until(lambda: process.poll() is not None or _listens(port), START_SECONDS_MAX, what="no Metastore")
            assert process.poll() is None, (directory / "metastore.log").read_text()[-3_000:]
            yield url
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def spark_reads(url: str, directory: Path) -> None:
    """Sync a topic whose directory has a space in its name, and read it by its table's name; then write, and read again."""
    with real_hive(url, directory) as served:
        store = str(directory / "a log")
        topic = TopicWriter(store, TOPIC)
        topic.append([(0, AT_MS, b"k", b"1"), (1, AT_MS, b"k", b"2")])
        assert CatalogBench(store=open_store(store)).sync_to(served.catalog).run().done["create"] == 1
        database = served.catalog.label.split(" at ")[0].rpartition(" ")[2]
        config = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": url,
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        }
        spark = session(store, master="local[1]", config=config)
        name = f"{database}.{table_name(TOPIC)}"
        for values in ({b"1", b"2"}, {b"1", b"2", b"3"}):
            assert {bytes(row["value"]) for row in spark.table(name).select("value").collect()} == values
            topic.append([(0, AT_MS, b"k", b"3")])
        spark.stop()


def run(directory: Path) -> None:
    """Run the tests, and raise ``AssertionError`` if one fails. Files are in the directory."""
    with metastore(directory) as url:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", str(TESTS), "-k", f"hive and not ({NOT_REAL})"]
        assert subprocess.run(command, env={**os.environ, METASTORE: url}, check=False).returncode == 0
        spark_reads(url, directory)
        print("Spark reads a topic by its table's name in the Metastore, and what is committed later, too.")
