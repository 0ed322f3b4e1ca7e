"""A ``SparkSession`` for a store.

1. The jars are exactly those of ``jars.lock``; a starting session asks no repository and no Maven cache.
2. Credentials never pass through here. S3A takes them from Hadoop's own settings where ``config`` has them, else from AWS's
   default chain (environment, profile, web identity, container, instance), which the Java process reads by itself. With
   ``vended`` it takes them from a profile whose ``credential_process`` asks a gateway, on the driver's machine.
3. Everything listens on the loopback address when the master is a local one, and the session's time zone is UTC.

With ``spark-submit`` the Java process runs before this code, so its class path is fixed and no jar is fetched. Give it the jars
with ``--jars "$(python -m spark_pipeline.jars --paths)"``, and the memory with ``--driver-memory``.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_pipeline.environment import variables
from spark_pipeline.java import java_executable
from spark_pipeline.registration import python_path, register
from spark_pipeline.vended import VendedStore, asked, credential_process

DELTA_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"

DRIVER_MEMORY: Final = "2g"
"""Heap of a local session, executors included: enough for a topic of some GB that is read as a stream."""

LOCAL_SHUFFLE_PARTITIONS: Final = 4
"""Spark's 200 are for clusters; on one machine each costs some milliseconds in every micro-batch."""

LOCAL_LISTING_TASKS: Final = 4
"""Tasks that look at files that are read by name. Spark would start one for each file, and most of its cost is the task's."""

SNAPSHOT_PARTITIONS: Final = 2
"""Tasks in which Delta replays a log; its default of 50 makes the first look at a small table ten seconds long."""

LOCAL_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""For checkpoints in a directory: with FileContext a rename there starts a process, several times in each micro-batch."""

_S3_SCHEMES: Final = ("s3", "s3a")

_OF_PROFILE: Final = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
_CREDENTIALS: Final = ",".join(
    (
        "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    )
)


def session(
    store: str,
    *,
    app_name: str = "tidelog",
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    vended: VendedStore | None = None,
) -> SparkSession:
    """A session that can read the topics of ``store``: ``format("tidelog")``, the Delta extension and, for S3, S3A.

    ``store`` is ``s3://bucket/prefix`` (``s3a://`` too), ``file:///directory`` or a directory's path. ``master`` is a Spark
    master; None means the one that spark-submit was given, else ``local[*]``. ``config`` has Spark settings that win over all
    set here. An endpoint other than AWS's comes from ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``, the region from
    ``AWS_REGION`` or ``AWS_DEFAULT_REGION``. ``vended``: a gateway's credentials for reading some topics are all that the
    session has, for as long as this process lives; for a local master.

    As with every ``getOrCreate``, a session that already runs in this process is returned, with those settings changed that
    still can be. A session made for S3 serves directories as well.

    Raises ``JavaMissing``, ``JarsUnavailable`` (also under spark-submit, without ``--jars``), ``PackageMissing``, and
    ``ValueError`` for a store of another scheme.
    """
    # Not with the package, which is imported before `python -m spark_pipeline.jars` runs that module.
    from spark_pipeline.jars import JarSet, ensure_jars  # noqa: PLC0415

    scheme = urlsplit(store).scheme
    if scheme not in ("", "file", *_S3_SCHEMES):
        raise ValueError(f"{store}: a store is a directory or s3://bucket/prefix")
    java_executable()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = _delta_settings()
    if submitted:
        _check_jars()
    else:
        jars = ensure_jars(JarSet.S3 if scheme in _S3_SCHEMES else JarSet.DELTA)
        settings["spark.jars"] = ",".join(str(jar) for jar in jars)
    if scheme in _S3_SCHEMES:
        settings |= s3_settings(os.environ)
    if master is None and not submitted:
        master = "local[*]"
    environment = {"PYTHONPATH": python_path(os.environ)}
    if vended is not None:
        settings |= _vended_settings(vended)
        environment |= _vended_environment(vended)
    if master is not None and master.startswith("local"):
        settings |= _local_settings()
        # On this machine workers run this Python; Spark would look for some "python3", which may lack this package.
        environment["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        if scheme not in _S3_SCHEMES:
            settings |= LOCAL_CHECKPOINTS
    settings |= dict(config or {})
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Java starts here, unless it runs already, and all its Python processes inherit its environment.
    with variables(environment):
        started = builder.getOrCreate()
    register(started)
    return started


def _vended_settings(vended: VendedStore) -> dict[str, str]:
    """S3A's. Raises ``StoreUnavailable``."""
    answer = asked(vended)
    where = {"AWS_ENDPOINT_URL": answer["endpoint_url"] or "", "AWS_REGION": answer["region"]}
    return s3_settings(where) | {"spark.hadoop.fs.s3a.aws.credentials.provider": _OF_PROFILE}


def _vended_environment(vended: VendedStore) -> dict[str, str]:
    """Where the processes of a local session find the profile."""
    directory = Path(tempfile.mkdtemp(prefix="tidelog-vended-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    config = directory / "config"
    config.write_text(f"[default]\ncredential_process = {credential_process(vended)}\n")
    # An empty one, so that no credentials of this machine's user are taken.
    (directory / "credentials").touch()
    return {
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(directory / "credentials"),
        "AWS_PROFILE": "default",
    }


def _check_jars() -> None:
    """Under spark-submit Java runs already: check that it finds Delta. Raises ``JarsUnavailable``."""
    from spark_pipeline.jars import JarsUnavailable  # noqa: PLC0415 - as above

    SparkContext._ensure_initialized()
    java: Any = SparkContext._jvm
    try:
        java.java.lang.Thread.currentThread().getContextClassLoader().loadClass(DELTA_EXTENSION)
    except Py4JJavaError:
        raise JarsUnavailable(
            "Delta's jars are not on the class path. Start it as: spark-submit --jars \"$(python -m spark_pipeline.jars "
            '--paths)" …, or without spark-submit: python …, which takes care of the jars by itself.'
        ) from None


def _delta_settings() -> dict[str, str]:
    """What every session needs: Delta tables, and sockets to Python processes that cost less than TCP does."""
    return {
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": str(SNAPSHOT_PARTITIONS),
    }


def _local_settings() -> dict[str, str]:
    """What a session on one machine should have: bounded, quiet, and not reachable from elsewhere."""
    log4j = str(files("spark_pipeline").joinpath("log4j2.properties"))
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}",
        "spark.log.structuredLogging.enabled": "false",
        "spark.sql.shuffle.partitions": str(LOCAL_SHUFFLE_PARTITIONS),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(LOCAL_LISTING_TASKS),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """S3A for ``s3://`` and ``s3a://``, with the endpoint and region that AWS's usual variables name; no credentials."""
    settings = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        "spark.delta.logStore.s3.impl": "io.delta.storage.S3SingleDriverLogStore",
        "spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore",
        "spark.hadoop.fs.s3a.aws.credentials.provider": _CREDENTIALS,
    }
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if endpoint:
        settings["spark.hadoop.fs.s3a.endpoint"] = endpoint
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
        settings["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(urlsplit(endpoint).scheme == "https").lower()
        region = region or "us-east-1"
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    return settings
