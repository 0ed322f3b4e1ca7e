"""The table ``system/consumer_offsets``: rows of groups, the partitions that members hold by them, and changes.

Sessions, heartbeats and assignors are in the gateway (``gateway.groups``), not in the store.
"""
