"""The engine below the routes: open topics, group commit, the tail cache, and reads from the store.

=====================  ==================================================================================
``group_commit``       items submitted while a commit is under way share the next one
``early_flush``        when a group may be committed before its timer, paid from savings
``open_table``         any Delta table: its log, kept fresh; one commit at a time; checkpoints
``shared_commits``     a system table: decisions that share a commit
``open_journal``       a journal: its table, its writer, and the topics that follow it
``open_topics``        the topics that are open in this gateway
``open_topic``         one topic: a table, its writer and its waiting readers
``topic_appends``      a topic's batches, submitted to its own writer or to its journal's
``topic_mover``        moves of a topic between its own commits and a journal; drains
``writer``             requests -> flushes -> acknowledgements; for journals ``journal_writer``
``tail_cache``         the newest flushes in memory
``start_resolver``     where a fetch begins: topics looked at, offsets found
``partition_reader``   records of a partition from an offset on, from the tail cache or the store
``fetcher``            how much to read of several partitions, and how long to wait
``waiters``            readers that wait for records
``partition_streams``  event streams
``administration``     topics created, listed, altered, deleted
``fresh_tables``       tables with every acknowledged record, for readers of the tables
``checkpointing``      checkpoints after commits
``log_look``           looks at a log's head, shared by concurrent requests
``pool``               threads for blocking calls
=====================  ==================================================================================

The engine knows nothing of HTTP. It doesn't know groups and transactions either: they use the engine. A restart loses nothing.
``gateway.log_engine`` puts engine, groups and transactions together.
"""
