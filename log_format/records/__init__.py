"""What a record is, how many bytes it counts, and which partition its key goes to. Arrow tables in, Arrow tables out.

No file, no offset and no store here: this holds for records before any decision about them.
"""
