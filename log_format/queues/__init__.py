"""The table ``system/queues``: queues, how far each has settled its partitions, and the changes to both.

Leases are in the gateway (``gateway.queues``), not in the store.
"""
