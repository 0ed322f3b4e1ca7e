"""Pipeline from a topic of JSON to a typed table and aggregates, each record once; invalid records go to a dead-letter topic.

``settings`` and the schemas (``record_schema``, ``json_schema``) define validity; ``judge`` validates each record. ``run``
runs the queries that write ``silver``, ``gold`` and ``dead_letters``. Nothing here knows how topics are read or written.

::

    topic --format("tidelog")--> judge --fits--> silver (Delta) --> gold (Delta), one table for each aggregate
                                       --else--> dead-letter topic

1. Every record of the topic is once in silver or once in the dead-letter topic, wherever driver or executors are killed. Silver
   remembers the micro-batch by Delta's ``txnAppId`` and ``txnVersion``, the dead-letter topic by the sink's transaction.
2. No record stops the stream.
3. The validation of a record depends only on the record and the schema.
4. Gold depends only on silver: an operator can delete it, and it is rebuilt.
"""
