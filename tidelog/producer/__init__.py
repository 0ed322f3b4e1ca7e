"""``Producer``: the send buffer, the sending threads, sequence numbers, and transactions.

Nothing about reading is here.
"""
