"""Order-independent checksum of records, which every reader can compute.

A record's canonical bytes are the ASCII text ``partition/offset/timestamp/key length/value length/``, followed by the key's and
the value's bytes. Its numbers are decimal, the timestamp in milliseconds since the epoch, -1 the length of a null. The checksum
is the CRC-32 of those bytes, as in zlib and Parquet. A set of records is summarized by ``count``, ``checksum_sum`` (the
checksums' sum) and ``checksum_xor`` (their exclusive or). These are equal for equal sets, and a lost, repeated, moved or
changed record changes them. Headers are not covered.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import (
    bit_xor,
    coalesce,
    col,
    concat,
    concat_ws,
    count,
    crc32,
    encode,
    length,
    lit,
    unix_millis,
)
from pyspark.sql.functions import sum as sum_


def checksum() -> Column:
    """Return the checksum of a record (long, ``[0, 2**32)``) from ``partition, offset, timestamp, key, value``."""
    lengths = [coalesce(length(name), lit(-1)) for name in ("key", "value")]
    text = concat_ws("/", col("partition"), col("offset"), unix_millis("timestamp"), *lengths, lit(""))
    empty = lit(b"")
    return crc32(concat(encode(text, "UTF-8"), coalesce(col("key"), empty), coalesce(col("value"), empty)))


def checksum_aggregates() -> tuple[Column, Column, Column]:
    """Return the aggregates ``count``, ``checksum_sum``, ``checksum_xor`` (all long) over a column ``checksum``."""
    return (
        count(lit(1)).alias("count"),
        sum_("checksum").alias("checksum_sum"),
        bit_xor("checksum").alias("checksum_xor"),
    )


def summary(records: DataFrame) -> DataFrame:
    """Return one row ``count, checksum_sum, checksum_xor`` for records with Kafka's columns; the sums are null without
    records."""
    return records.select(checksum().alias("checksum")).agg(*checksum_aggregates())
