"""``format("tidelog")`` for writing: a batch is in its topics exactly once and atomically, whatever crashes.

There are two ways. Straight to the store, a task stages objects (``stage``) and the driver decides their transaction
(``commit``). Through gateways, a task hands its records to the driver (``carry``), which sends them in one transaction of the
HTTP API (``commit_by_gateway``). ``writers`` is what Spark calls. Nothing here reads topics.

1. A batch is one transaction over all its topics. Its decision carries the batch's name, and no name is decided twice: the
   query is the transactional id, the batch's number the transaction's (``log_format.transactions.job``; decision 009).
2. Executors never make anything visible. The driver decides on exactly what was staged by the task attempts that Spark counts.
3. The next driver, gateway or round of maintenance finishes a decided transaction. Its commits are validated at the head
   against all others.
"""
