"""Spark: reads topics, which are Delta tables, straight from the store, with the parallelism of the cluster, and writes to them
exactly once.

Here are sessions and their jars, ``read_topic``, and ``format("tidelog")``: ``source/`` reads, ``sink/`` writes. ``jobs/`` are
programs on top; Spark's Python processes run ``python_start/`` as they start. Nothing here serves HTTP; only the sink through
gateways speaks it, by the calls of ``tidelog``.

1. Only the sink commits to topics, by the format's own committer. Spark's Delta writer never does: its S3 log store checks and
   then writes unconditionally, so it could overwrite a gateway's commit. Reading is safe.
2. Transforms are ``DataFrame -> DataFrame``; actions are in ``jobs`` only.
3. Reading goes to the store, never through a gateway, so it can't disturb producers.
"""

from spark_pipeline.by_name import register_tables
from spark_pipeline.lag import lag
from spark_pipeline.read import read_topic, stream_topic
from spark_pipeline.registration import register
from spark_pipeline.session import session
from spark_pipeline.way import Way

__all__ = ["Way", "lag", "read_topic", "register", "register_tables", "session", "stream_topic"]
