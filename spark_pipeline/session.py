"""A ``SparkSession`` for a store.

1. The jars are exactly those of ``jars.lock``; a starting session asks no repository and no Maven cache.
2. Credentials never pass through here. S3A takes them from Hadoop's own settings if ``config`` has them, else from AWS's
   default chain (environment, profile, web identity, container, instance), which the Java process reads by itself. With
   ``vended`` it takes them from a profile whose ``credential_process`` asks a gateway, on the driver's machine.
3. With a local master everything listens on the loopback address only. The session's time zone is UTC.

With ``spark-submit`` the Java process runs before this code, so its class path is fixed and no jar is fetched. Pass the jars by
``--jars "$(python -m spark_pipeline.jars --paths)"``, and the memory by ``--driver-memory``.
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

from spark_pipeline.by_name import register_tables
from spark_pipeline.environment import set_variables
from spark_pipeline.java import java_executable
from spark_pipeline.registration import python_path, register
from spark_pipeline.vended import VendedStore, credential_process, request_credentials

DELTA_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"

DRIVER_MEMORY: Final = "2g"
"""Heap of a local session, including executors: enough to stream a topic of some GB."""

LOCAL_SHUFFLE_PARTITIONS: Final = 4
"""Shuffle partitions on one machine, where each costs some milliseconds in every micro-batch; Spark's 200 are for clusters."""

LOCAL_LISTING_TASKS: Final = 4
"""Tasks that stat files given by name. Spark would start one per file, whose cost is mostly the task's."""

SNAPSHOT_PARTITIONS: Final = 2
"""Tasks in which Delta replays a log; with its default of 50, the first look at a small table takes ten seconds."""

LOCAL_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""Settings for checkpoints in a directory: with FileContext each rename starts a process, several times per micro-batch."""

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
    catalog: str | None = None,
) -> SparkSession:
    """Return a session that can read the topics of ``store``: ``format("tidelog")``, the Delta extension and, for S3, S3A.

    Args:
        store: ``s3://bucket/prefix`` (``s3a://`` too), ``file:///directory`` or a directory's path.
        app_name: name of the Spark application.
        master: a Spark master; None: the one given to spark-submit, else ``local[*]``.
        config: Spark settings that override all set here.
        vended: makes a gateway's credentials for reading some topics the session's only ones, for as long as this process
            lives; for a local master.
        catalog: name of a database whose tables are the topics that exist now: ``catalog="tidelog"`` gives
            ``SELECT … FROM tidelog.orders`` (``register_tables``, which also adds later topics). None: no such database.

    An endpoint other than AWS's comes from ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``, the region from ``AWS_REGION`` or
    ``AWS_DEFAULT_REGION``. As with every ``getOrCreate``, a session already running in this process is returned, with those
    settings changed that still can be. A session made for S3 serves directories as well.

    Raises ``JavaMissing``, ``JarsUnavailable`` (also under spark-submit, without ``--jars``), ``PackageMissing``, and
    ``ValueError`` for a store of another scheme; with ``catalog`` also what ``register_tables`` raises.
    """
    # Imported late: the package is imported before `python -m spark_pipeline.jars` runs that module.
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
        # Local workers run this Python; Spark would search for any "python3", which may lack this package.
        environment["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        if scheme not in _S3_SCHEMES:
            settings |= LOCAL_CHECKPOINTS
    settings |= dict(config or {})
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Java starts here, unless it runs already, and its Python processes inherit this environment.
    with set_variables(environment):
        started = builder.getOrCreate()
    register(started)
    if catalog is not None:
        register_tables(started, store, database=catalog)
    return started


def _vended_settings(vended: VendedStore) -> dict[str, str]:
    """Return S3A's settings for vended credentials. Raises ``StoreUnavailable``."""
    answer = request_credentials(vended)
    where = {"AWS_ENDPOINT_URL": answer["endpoint_url"] or "", "AWS_REGION": answer["region"]}
    return s3_settings(where) | {"spark.hadoop.fs.s3a.aws.credentials.provider": _OF_PROFILE}


def _vended_environment(vended: VendedStore) -> dict[str, str]:
    """Create the AWS profile, and return the variables by which a local session's processes find it."""
    directory = Path(tempfile.mkdtemp(prefix="tidelog-vended-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    config = directory / "config"
    config.write_text(f"[default]\ncredential_process = {credential_process(vended)}\n")
    # An empty file, so that no credentials of this machine's user are used.
    (directory / "credentials").touch()
    return {
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(directory / "credentials"),
        "AWS_PROFILE": "default",
    }


def _check_jars() -> None:
    """Check that Java, which spark-submit has already started, finds Delta. Raises ``JarsUnavailable``."""
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
    """Return the settings of every session: Delta tables, and sockets to Python processes that are cheaper than TCP."""
    return {
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": str(SNAPSHOT_PARTITIONS),
    }


def _local_settings() -> dict[str, str]:
    """Return the settings of a session on one machine: bounded, quiet, and unreachable from elsewhere."""
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
    """Return S3A's settings for ``s3://`` and ``s3a://``, with endpoint and region from AWS's usual variables; no credentials."""
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
