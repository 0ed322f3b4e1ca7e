"""``Consumer``: what it is assigned, its positions, reading ahead, membership in a group, and commits.

Nothing about producing is here.
"""
