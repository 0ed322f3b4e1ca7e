"""``Producer``: the buffer of records, the threads that send them, sequence numbers, and transactions.

Nothing about reading is here.
"""
