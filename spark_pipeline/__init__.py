"""Spark: read topics as what they are, Delta tables, straight from the bucket and as wide as the cluster; write to them once.

Sessions and their jars, ``read_topic``, and ``format("tidelog")`` are here: ``source/`` reads, ``sink/`` writes, ``jobs/`` are
programs on top, ``python_start/`` is what Spark's Python processes run as they start. Nothing here serves HTTP; only the sink
through gateways speaks it, by the calls of ``tidelog``.

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
