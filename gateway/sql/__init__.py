"""SQL queries over topics, answered by DuckDB in a process for each (decision 064): the queue of statements and their processes,
the records that are read for a statement, and the code that runs in its process.

The meaning of requests, and what their callers may read, is not known here.
"""
