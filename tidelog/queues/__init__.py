"""Working through queues: records that are locked one by one, handled, and settled by themselves.

No group and no partition is held here; what waits for a gateway is in ``calls``.
"""
