"""``python -m tests.support.java_archive``: makes the archive of Spark's classes, unless there is one that fits.

A starting Spark takes a quarter of its processor's time to read and link classes. With the archive Java finds them as it holds
them. It takes half a minute, once for each Java and each Spark. Without it all is as ever, only slower.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import psutil
import pyspark
from pyspark.sql import DataFrame, SparkSession

from spark_pipeline import session
from spark_pipeline.java import java_executable
from tests.support.java import ARCHIVE, SETTINGS

END_SECONDS_MAX = 300


def main() -> None:
    """Make it. It is put in place whole."""
    fits = ARCHIVE.with_suffix(".txt")
    wanted = _what_it_fits()
    if ARCHIVE.exists() and fits.exists() and fits.read_text() == wanted:
        return
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as name:
        made = Path(name) / ARCHIVE.name
        os.environ["SPARK_SUBMIT_OPTS"] = (
            f"{SETTINGS} -XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"
        )
        spark = session(name, app_name="archive", config={"spark.sql.warehouse.dir": name})
        assert spark.sparkContext._jvm is not None
        java = psutil.Process(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        _load_classes(spark, Path(name))
        spark.stop()
        assert spark.sparkContext._gateway is not None
        spark.sparkContext._gateway.proc.stdin.close()  # which ends Java
        java.wait(END_SECONDS_MAX)
        made.rename(ARCHIVE)
    fits.write_text(wanted)


def _what_it_fits() -> str:
    told = subprocess.run([java_executable(), "-version"], capture_output=True, text=True, check=True)
    return f"{told.stderr}{Path(pyspark.__file__).parent}\n{SETTINGS}\n"


def _load_classes(spark: SparkSession, directory: Path) -> None:
    """What most tests do first: a table is written, queried, and read as a stream."""
    table = str(directory / "table")
    spark.range(10).selectExpr("id", "cast(id AS string) AS value").write.format("delta").save(table)
    spark.read.format("delta").load(table).groupBy("value").count().orderBy("value").collect()

    def keep(batch: DataFrame, _number: int) -> None:
        batch.collect()

    records = spark.readStream.format("delta").load(table).writeStream.foreachBatch(keep)
    records.option("checkpointLocation", str(directory / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


if __name__ == "__main__":
    main()
