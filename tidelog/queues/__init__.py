"""Consumption of queues: records that are locked one by one, handled, and settled one by one.

No group and no partition is held here; requests to gateways are in ``calls``.
"""
