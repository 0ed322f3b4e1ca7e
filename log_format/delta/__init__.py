"""The log of any Delta table: its actions, its replay, and the conditional PUT that commits to it.

Topics and system tables are treated alike here. What only a topic has (segments, offsets, producers) is in ``topic``.
"""
