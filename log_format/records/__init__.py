"""What a record is, how many bytes it counts, and which partition its key goes to. Arrow tables in, Arrow tables out.

No file, no offset and no store here: a record is known before anything is decided about it.
"""
