"""Maintenance: merges of small segments, retention, key compaction, log clean-up, collection of unneeded objects.

::

    topic_upkeep    one topic, one round: plan, rewrite, commit
    merge_plan      which segments become one (pure)
    key_plan        which segments to clear of superseded keys (pure)
    collection      which objects to delete (pure)
    log_cleanup     which commits and checkpoints to delete (pure)
    rewrite         segments in, segments out: a worker's task
    layout_plan     which files of an archive are rewritten for queries, and in which order (pure)
    layout_rewrite  files of an archive in, files in another order out: a worker's task
    workers         where tasks run: in this process, or in Spark's executors (spark_workers)
    job, __main__   all topics, round after round

Every commit goes through ``log_format.delta.committer`` and is validated against the head. Nothing here holds a lock. So any
number of these processes may run concurrently, and each may be killed at any time. They meet the gateways only as bytes in the
store.
"""

__all__: list[str] = []
