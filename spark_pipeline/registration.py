"""Making ``format("tidelog")`` known to a session.

Registration puts what Spark's Python processes need to reach the store into their environment, on the driver and on executors.
It is part of no plan, no option and no log. It comes from Spark's own configuration: S3A's settings
(``spark.hadoop.fs.s3a.access.key`` and its like) and ``spark.executorEnv.*``. Where neither says anything the processes look
where AWS's tools do (environment, profile, web identity, container, instance).
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

FILTERS_SETTING: Final = "spark.sql.python.filterPushdown.enabled"

SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
"""Spark starts its Python processes as modules: a file of the working directory could shadow a module that they import."""
LOOK_SECONDS_MAX: Final = 60
"""How long a Python may take to start: a moment on an idle machine."""

_OF_S3A: Final = {
    "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "fs.s3a.session.token": "AWS_SESSION_TOKEN",
    "fs.s3a.endpoint": "AWS_ENDPOINT_URL_S3",
    "fs.s3a.endpoint.region": "AWS_REGION",
}


def register(spark: SparkSession) -> None:
    """Make ``format("tidelog")`` known to the session. A second call takes the settings as they are then.

    ``spark_pipeline.session`` does it already. Switches ``spark.sql.python.filterPushdown.enabled`` on for the session, without
    which Spark refuses sources that can skip what a filter excludes.

    On a local master Spark's Python processes are this Python from now on, unless ``PYSPARK_PYTHON`` says otherwise: Spark
    would take some ``python3``. Raises ``PackageMissing`` when the Python that it takes on this machine lacks this package.
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
    spark.conf.set(FILTERS_SETTING, "true")


class PackageMissing(RuntimeError):
    """The Python that Spark starts lacks this package: name one that has it."""


def check_python(program: str, paths: str) -> None:
    """Raises ``PackageMissing``. A Python that is not on this machine is left to Spark."""
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
    """Further environment of the Python processes: how they start, and with ``--py-files`` our archive.

    Spark gives the archive to all of its driver's processes but those that plan streams. A path that does not exist is ignored.
    """
    package = Path(__file__).parent
    paths = [str(package / "python_start")]
    if package.parent.is_file():
        paths.append(str(package.parent))
    others = environment.get("PYTHONPATH")
    return os.pathsep.join([*paths, others] if others else paths)


def store_environment(setting: Callable[[str], str | None]) -> Mapping[str, str]:
    """The ``AWS_*`` variables for S3A's settings; none where there are no settings."""
    found = {variable: value for name, variable in _OF_S3A.items() if (value := setting(name))}
    endpoint = found.get("AWS_ENDPOINT_URL_S3")
    if endpoint is not None and "://" not in endpoint:
        scheme = "http" if setting("fs.s3a.connection.ssl.enabled") == "false" else "https"
        found["AWS_ENDPOINT_URL_S3"] = f"{scheme}://{endpoint}"
    if "AWS_REGION" in found:
        found["AWS_DEFAULT_REGION"] = found["AWS_REGION"]
    return found
