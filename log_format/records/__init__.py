"""Records: their columns, their size in bytes, and the partition of a key. Arrow tables in, Arrow tables out.

Nothing here depends on files, offsets or the store.
"""
