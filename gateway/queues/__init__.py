"""Queues: records locked, delivered and settled one by one (decision 041).

The store has the settlements (``log_format.queues``); leases are the coordinator's memory. No HTTP is known here.
"""
