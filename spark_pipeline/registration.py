"""Registration of ``format("tidelog")`` with a session.

Registration puts the settings by which Spark's Python processes reach the store into their environment, on the driver and on
executors. These settings are in no plan, option or log. They come from Spark's own configuration: S3A's settings
(``spark.hadoop.fs.s3a.access.key`` etc.) and ``spark.executorEnv.*``. If neither has them, the processes look where AWS's tools
do (environment, profile, web identity, container, instance).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from spark_pipeline.data_source import TidelogDataSource
from spark_pipeline.source.planning import PARALLELISM_VARIABLE

SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
"""Variables that keep the working directory off the path: a file there could shadow a module that Spark's Python processes
import."""
LOOK_SECONDS_MAX: Final = 60
"""Time limit for a Python's start: a moment on an idle machine."""

_OF_S3A: Final = {
    "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "fs.s3a.session.token": "AWS_SESSION_TOKEN",
    "fs.s3a.endpoint": "AWS_ENDPOINT_URL_S3",
    "fs.s3a.endpoint.region": "AWS_REGION",
}


def register(spark: SparkSession) -> None:
    """Register ``format("tidelog")`` with the session. A repeated call applies the settings of that time.

    ``spark_pipeline.session`` calls this already.

    On a local master Spark's Python processes use this Python from now on, unless ``PYSPARK_PYTHON`` is set: Spark would use
    any ``python3``. Raises ``PackageMissing`` when the Python that Spark uses on this machine lacks this package.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    hadoop = context._jsc.hadoopConfiguration()
    before = context.environment
    check_python(context.pythonExec, python_path(before))
    context.environment = {
        **store_environment(hadoop.get),
        **before,
        PARALLELISM_VARIABLE: str(context.defaultParallelism),
        "PYTHONPATH": python_path(before),
        **SAFE_PATH,
    }
    try:
        spark.dataSource.register(TidelogDataSource)
    finally:
        context.environment = before


class PackageMissing(RuntimeError):
    """The Python that Spark starts lacks this package: configure one that has it."""


def check_python(program: str, paths: str) -> None:
    """Raise ``PackageMissing`` if the Python lacks this package. A Python that is not on this machine is not checked."""
    found = shutil.which(program)
    if found is None or found == sys.executable:
        return
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('spark_pipeline') is None)"
    environment = {**os.environ, "PYTHONPATH": paths, **SAFE_PATH}
    if subprocess.run([found, "-c", look], env=environment, check=False, timeout=LOOK_SECONDS_MAX).returncode != 0:  # noqa: S603
        raise PackageMissing(
            f"Spark's Python processes are {program!r} ({found}), which has no module spark_pipeline. Set PYSPARK_PYTHON "
            f"before the session is made, such as to {sys.executable}, or give Spark the wheel by --py-files (docs/spark.md)."
        )


def python_path(environment: Mapping[str, str]) -> str:
    """Return the ``PYTHONPATH`` of the Python processes: their start directory and, with ``--py-files``, our archive.

    Spark gives the archive to all of its driver's processes except those that plan streams. A path that does not exist is
    ignored.
    """
    package = Path(__file__).parent
    paths = [str(package / "python_start")]
    if package.parent.is_file():
        paths.append(str(package.parent))
    others = environment.get("PYTHONPATH")
    return os.pathsep.join([*paths, others] if others else paths)


def store_environment(setting: Callable[[str], str | None]) -> Mapping[str, str]:
    """Return the ``AWS_*`` variables equivalent to S3A's settings; empty without settings."""
    found = {variable: value for name, variable in _OF_S3A.items() if (value := setting(name))}
    endpoint = found.get("AWS_ENDPOINT_URL_S3")
    if endpoint is not None and "://" not in endpoint:
        scheme = "http" if setting("fs.s3a.connection.ssl.enabled") == "false" else "https"
        found["AWS_ENDPOINT_URL_S3"] = f"{scheme}://{endpoint}"
    if "AWS_REGION" in found:
        found["AWS_DEFAULT_REGION"] = found["AWS_REGION"]
    return found
