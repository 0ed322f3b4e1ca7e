"""The two system tables as a gateway has them: decisions share commits, and memory is bounded.

``log_format`` says what a decision means; the folders above make them.
"""
