"""Old records, read, encoded and compressed by processes of their own (decision 057): the lane that hands them work, what
passes between, and what such a process does.

What a request means, and whether its records are old, is not known here.
"""
