"""What a record is, how many bytes it counts, and which partition its key goes to. Arrow tables in, Arrow tables out.

Nothing here depends on files, offsets or the store.
"""
