"""Questions about topics in SQL, answered by DuckDB in a process of its own (decision 064): the turn and the process that a
statement gets, the records that are read for it, and what happens inside that process.

What a request means, and what its caller may read, is not known here.
"""
