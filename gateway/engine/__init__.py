"""The engine below the routes: topics, flushes, the tail in memory, reads from the store.

===================  ==================================================================================
``registry``         the topics that are open here
``open_topic``       one topic: its log, kept fresh; its committer, writer and waiters
``writer``           requests -> flushes -> acknowledgements
``tail_cache``       the newest flushes in memory
``reading``          records of a partition from an offset on, from the tail or the store
``fetching``         where to begin, how much, how long to wait
``waiting``          who waits for which partition
``following``        event streams
``administration``   topics made, listed, altered, deleted
``checkpointing``    checkpoints behind the commits
``log_look``         looks at a log's head, shared
``pool``             threads for what blocks
===================  ==================================================================================

No HTTP is known here, nor groups and transactions, which use it; nothing is kept that a restart would miss.
``gateway.log_engine`` puts the three together.
"""
