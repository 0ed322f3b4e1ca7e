"""A stream of Spark, read to its end."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, Row


def drain(stream: DataFrame, checkpoint: Path | str) -> list[list[Row]]:
    """All that it has to give from its checkpoint on, micro-batch by micro-batch."""
    batches: list[list[Row]] = []
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: batches.append(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches
