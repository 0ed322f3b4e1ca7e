"""The table ``system/consumer_offsets``: rows of groups, the partitions that members hold by them, and changes.

The gateway has sessions, heartbeats and assignors (``gateway.groups``): they are not in the store.
"""
