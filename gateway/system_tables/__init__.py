"""The system tables as open in a gateway: decisions share commits, and memory is bounded.

``log_format`` says what a decision means; the folders above make decisions. ``claims`` keeps what a coordinator claimed by rows.
"""
