"""Spark's functions for Avro, whose jar is not among those that Tidelog needs: fetched once, into the cache of the others."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_pipeline import jars

AVRO = jars.Jar(
    "org.apache.spark", "spark-avro_2.13", "4.2.0", "4c186cedc03cbe4ee356a94b32232b347ef48611c3209400b3a77e4fe4abff4f"
)


def spark_avro_jar() -> Path:
    """Where the jar is."""
    directory = jars.jars_directory([AVRO], jars.cache_root())
    if not directory.is_dir():
        jars._fetch((AVRO,), directory, sys.stderr)
    return directory / AVRO.file_name
