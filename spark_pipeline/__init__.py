"""Spark: read topics as what they are, Delta tables, straight from the bucket and as wide as the cluster.

===================  =================================================================================
``java``             the Java that Spark runs on, or one clear line on how to get it
``jars``             exactly the jars that are needed, pinned and verified, in a cache outside the project
``session``          a ``SparkSession`` for a store: a directory, S3, or anything that speaks S3
``source/``          ``format("tidelog")``: Spark's Kafka source, but from the bucket
``sink/``            ``format("tidelog")``: each micro-batch in its topics once
``data_source``      what Spark knows by that name
``lag``              how far a query is behind
``registration``     makes it known to a session
``read``             ``read_topic`` and ``stream_topic``: a topic with the columns of Spark's Kafka source
``way``              which reader is faster for a batch
``driver_store``     the store in the driver's own process
``environment``      this process's environment, changed for a moment
``python_start/``    what Spark's Python processes run as they start
``schemas``          those columns, as constants
``record_checksum``  a checksum of records that every other reader can compute too
``jobs/``            programs, each runnable with ``python -m`` and with ``spark-submit``
===================  =================================================================================

1. Only the sink commits to topics, by the format's own committer. Spark's Delta writer never does: its S3 log store checks
   and then writes without a condition, so it could overwrite a gateway's commit. Reading needs no such care.
2. Transforms are ``DataFrame -> DataFrame``; actions are in ``jobs`` only.
3. Reading goes to the store, never through a gateway, so it can't disturb producers.
"""

from spark_pipeline.lag import lag
from spark_pipeline.read import read_topic, stream_topic
from spark_pipeline.registration import register
from spark_pipeline.session import session
from spark_pipeline.way import Way

__all__ = ["Way", "lag", "read_topic", "register", "session", "stream_topic"]
