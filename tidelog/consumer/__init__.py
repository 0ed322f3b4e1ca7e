"""``Consumer``: assignment, positions, read-ahead, group membership and commits.

Nothing about producing is here.
"""
