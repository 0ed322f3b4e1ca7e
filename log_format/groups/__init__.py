"""The table ``system/consumer_offsets``: what a group's row says, which member holds which partition by it, and its changes.

Sessions, heartbeats and assignors are a gateway's (``gateway.groups``): they are not in the store.
"""
