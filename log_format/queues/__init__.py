"""The table ``system/queues``: queues, how far each has settled its partitions, and the changes of both.

What is locked at the moment is not in the store: the gateway has it (``gateway.queues``).
"""
