"""``format("tidelog")`` for reading: topics straight from the store, with the options and columns of Spark's Kafka source.

From option to batch: ``options`` and ``positions`` say what is read, and ``topics`` keeps each topic's log fresh. ``planning``
makes tasks of both; a ``task`` reads ranges of segments. Spark calls ``batch`` and ``stream``. Nothing here writes.

1. The driver reads logs, executors read segments; neither asks a gateway, and no JVM reads the log.
2. A plan says where records are. It holds no credentials: each process finds them itself.
3. A stream's driver keeps the state of its topics and reads only new commits, so a micro-batch costs the same however long the
   log is.
4. The records of one partition are in offset order within a task; tasks are in no order.
"""
