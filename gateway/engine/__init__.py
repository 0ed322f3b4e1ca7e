"""The engine below the routes: topics, flushes, the tail in memory, reads from the store.

===================  ==================================================================================
``group_commit``     items submitted while a commit is under way share the next one
``open_table``       any Delta table: its log, kept fresh; one commit at a time; checkpoints
``shared_commits``   a system table: decisions that share a commit
``registry``         the topics that are open here
``open_topic``       one topic: a table, its writer and its waiters
``writer``           requests -> flushes -> acknowledgements
``tail_cache``       the newest flushes in memory
``locating``         where a fetch begins: topics looked at, offsets found
``reading``          records of a partition from an offset on, from the tail or the store
``fetching``         how much of several partitions, and how long to wait
``waiting``          readers that wait for records
``following``        event streams
``administration``   topics made, listed, altered, deleted
``checkpointing``    checkpoints after the commits
``log_look``         looks at a log's head, shared
``pool``             threads for blocking calls
===================  ==================================================================================

The engine knows no HTTP, and no groups and transactions, which use it. A restart loses nothing. ``gateway.log_engine`` puts the
three together.
"""
