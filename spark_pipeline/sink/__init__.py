"""``format("tidelog")``, writing: a batch is in its topics once and all at once, whatever crashes.

There are two ways. Straight on the store a task stages objects (``stage``) and the driver decides their transaction (``commit``).
Through gateways a task hands its records to the driver (``carry``), which sends them in one transaction of the HTTP API
(``commit_by_gateway``). ``writers`` is what Spark calls. Nothing here reads topics.

1. A batch is one transaction over all its topics. Its decision carries the batch's name, and no name is decided twice: the query
   is a transactional id, the batch's number is the transaction's (``log_format.transactions.job``; decision 009).
2. Executors never make anything visible; the driver decides, by exactly what those tries of tasks staged that Spark counts.
3. What is decided is brought to its end by the next driver, gateway or round of maintenance. It is validated at the head against
   all other commits.
"""
