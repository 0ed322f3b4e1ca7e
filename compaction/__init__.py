"""Maintenance: small segments into large ones, retention, key compaction, log clean-up, collection of unused objects.

::

    topic_upkeep    one topic, one round: plan, do, commit
    merge_plan      which segments become one (pure)
    key_plan        which segments to rid of superseded keys (pure)
    collection      which objects are unused (pure)
    log_cleanup     which commits are superseded (pure)
    rewrite         segments in, segments out: what a worker does
    workers         where it runs: this process, or Spark's executors (spark_workers)
    job, __main__   all topics, again and again

Every commit goes through ``log_format.delta.committer`` and is validated against the head; nothing here holds a lock, so any
number of these may run at once, and each may be killed at any time. It meets the gateways only as bytes in the store.
"""

__all__: list[str] = []
