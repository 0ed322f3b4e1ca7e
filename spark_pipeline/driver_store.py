"""The store in the driver's own Python process, for decisions of the driver before Spark runs anything.

Spark's Python processes get their environment from Spark's configuration (``registration``); this process may even lack the
variables of the Java process. So the driver opens the store with S3A's settings first, then this process's environment, then
Java's. The settings are in this process's environment only for that moment.
"""

from __future__ import annotations

import functools
import os
from typing import Final

from pyspark.sql import SparkSession

from log_format.store import ObjectStore
from log_format.stores import open_store
from spark_pipeline.environment import set_variables
from spark_pipeline.registration import store_environment

_OF_JAVA: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)
_STORES_MAX: Final = 4


def driver_store(spark: SparkSession, uri: str) -> ObjectStore:
    """Return the store at ``uri`` (``s3a://`` means ``s3://``), which is cached until the settings change. Raises
    ``ValueError``."""
    if not uri.startswith(("s3://", "s3a://")):
        return _open(uri, ())
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    java = spark.sparkContext._jvm.System.getenv  # type: ignore[union-attr]
    of_java = {name: value for name in _OF_JAVA if name not in os.environ and (value := java(name))}
    more = {**of_java, **store_environment(hadoop.get)}
    return _open(f"s3://{uri.partition('://')[2]}", tuple(sorted(more.items())))


@functools.lru_cache(maxsize=_STORES_MAX)
def _open(uri: str, more: tuple[tuple[str, str], ...]) -> ObjectStore:
    with set_variables(dict(more)):
        return open_store(uri, must_exist=True)
