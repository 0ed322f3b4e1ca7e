"""``format("tidelog")``, reading: topics straight from the store, with the options and columns of Spark's Kafka source.

===============  =====================================================================================
``options``      what ``option(…)`` says, parsed; refusals name the option
``store_access`` the store and its reader in a Python process of Spark's
``topics``       the topics that are read, each with its log, kept fresh commit by commit
``positions``    where to begin and to end: offsets, timestamps, ``earliest``, ``latest``
``offsets``      positions as Kafka's source writes them: ``{"topic": {"0": 123}}``
``limit``        how much a micro-batch takes
``loss``         records that are gone before they were read
``planning``     from positions to tasks
``plan``         offsets -> tasks
``task``         one task: ranges of segments -> Arrow batches
``read_ahead``   the next records while Spark takes those before
``relocation``   where records are whose segment is gone since they were planned
``filters``      what of a query's filters the plan can use
``progress``     how far a query is, as a group's committed offsets
``batch``        the reader of ``spark.read``
``stream``       the reader of ``spark.readStream``
===============  =====================================================================================

1. The driver reads logs, executors read segments; neither asks a gateway, and no JVM reads the log.
2. What a plan holds is where records are: no credentials, which each process finds for itself.
3. A stream's driver keeps the state of its topics and looks for the next commit, so that a micro-batch costs the same
   however long the log is.
4. The records of one partition are in order of offset within a task; tasks are in no order.
"""
