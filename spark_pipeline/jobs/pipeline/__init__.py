"""A topic of JSON -> a typed table -> aggregates, each record once; what does not fit goes to a dead-letter topic.

``settings`` and the schemas (``record_schema``, ``json_schema``) say what fits, ``judge`` decides it for each record, ``run``
keeps the queries going that write ``silver``, ``gold`` and ``dead_letters``. Nothing here knows how topics are read or written.

::

    topic --format("tidelog")--> judge --fits--> silver (Delta) --> gold (Delta), one table for each aggregate
                                       --else--> dead-letter topic

1. Every record of the topic is in silver or in the dead-letter topic, in one of them, once; wherever driver or executors are
   killed. Silver remembers the micro-batch by Delta's ``txnAppId`` and ``txnVersion``, the topic by the sink's transaction.
2. No record stops the stream.
3. What is decided of a record follows from the record and the schema alone.
4. Gold follows from silver: it can be deleted and is made anew.
"""
