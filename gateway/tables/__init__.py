"""The two system tables as a gateway has them: their decisions share commits, and what they take in memory is bounded.

What the decisions mean is ``log_format``'s. The folders above take them.
"""
