"""A topic of JSON -> a typed table -> aggregates, each record once; what does not fit goes to a dead-letter topic.

================  =====================================================================================
``settings``      what a pipeline is: options and a TOML file
``record_schema`` which records fit: columns and rules, from DDL or JSON Schema
``json_schema``   JSON Schema -> columns and rules
``strict_json``   Spark's JSON reader, made exact
``judge``         records -> typed rows, or the reasons why not
``silver``        the table of rows
``dead_letters``  the topic of the others
``gold``          aggregates over windows of event time
``run``           the queries
``report``        what people and machines see of it
================  =====================================================================================

::

    topic --format("tidelog")--> judge --fits--> silver (Delta) --> gold (Delta), one table for each aggregate
                                       --else--> dead-letter topic

1. Every record of the topic is in silver or in the dead-letter topic, in one of them, once; wherever driver or executors are
   killed. Silver remembers the micro-batch by Delta's ``txnAppId`` and ``txnVersion``, the topic by the sink's transaction.
2. No record stops the stream.
3. What is decided of a record follows from the record and the schema alone.
4. Gold follows from silver: it can be deleted and is made anew.
"""
