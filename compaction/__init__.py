"""Maintenance: small segments into large ones, retention, key compaction, log clean-up, collection of what is no longer needed.

Plans are pure (``merge_plan``, ``key_plan``, ``collection``, ``log_cleanup``); workers rewrite segments, in this process or on
Spark's executors; ``topic_upkeep`` is one round over one topic, ``job`` all rounds over all topics. Every commit goes through
``log_format.delta.committer`` and is validated against the head. Nothing here holds a lock: any number of these may run at once,
and each may be killed at any time. It meets the gateways only as bytes in the store.
"""

__all__: list[str] = []
