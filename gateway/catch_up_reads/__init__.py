"""Old records, read, encoded and compressed by separate processes (decision 057): the lane that gives them tasks, the messages
between them and the gateway, and the code that runs in such a process.

The meaning of requests, and whether their records are old, is not known here.
"""
