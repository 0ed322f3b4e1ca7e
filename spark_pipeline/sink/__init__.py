"""``format("tidelog")``, writing: a micro-batch is in the topic once, whatever crashes, with no gateway in between.

===========  ===========================================================================================
``options``  what ``option(…)`` says, parsed; refusals name the option
``columns``  Kafka's sink's columns -> records, each with its partition
``stage``    one task: its records as objects beside the topics
``commit``   the driver: everything staged for a micro-batch, in one commit for each topic
``queries``  which producer a streaming query is, remembered in the store
``writers``  what Spark calls
===========  ===========================================================================================

1. Executors only put objects that no reader looks at; the driver's commit makes them records, all of a topic's at once.
2. A query is a producer of its own, and a micro-batch is an epoch of it: the topic's log tells whether a batch is in it, so one
   that is repeated changes nothing. Batches with several topics are once in each, and visible topic by topic.
3. It commits by the format's own committer, which validates against gateways and other writers at the head of the log.

::

    system/spark/queries/<query id>.json            the producer that the query is, and the batch that it was about to commit
    system/spark/staged/<query id>/<batch>/….arrow  records on their way
"""
