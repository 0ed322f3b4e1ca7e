"""``format("tidelog")``, writing: a batch is in its topics once and all at once, whatever crashes.

=====================  =================================================================================
``options``            what ``option(…)`` says, parsed; refusals name the option
``columns``            Kafka's sink's columns -> records, each with its partition
``batch_name``         what a batch is called, so that it is written once
``stage``              one task, straight to the store: its records as staged objects of a transaction
``commit``             the driver, straight on the store: decides the transaction, brings it to its end
``carry``              one task, through gateways: its records on their way to the driver
``commit_by_gateway``  the driver, through gateways: a transaction of the HTTP API, by the calls of ``tidelog``
``writers``            what Spark calls
=====================  =================================================================================

1. A batch is one transaction over all its topics. Its decision carries the batch's name, and no name is decided twice: the query
   is a transactional id, the batch's number is the transaction's (``log_format.transactions.job``; decision 009).
2. Executors never make anything visible; the driver decides, by exactly what those tries of tasks staged that Spark counts.
3. What is decided is brought to its end by whoever comes next. It is validated against everybody else's commits at the head.
"""
