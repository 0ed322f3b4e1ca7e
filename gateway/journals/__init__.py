"""Upkeep of journals: topics are drained when it is time, and moved between their own commits and a journal.

``commit_modes``  which topics should be at a journal, by measured rates
``upkeep``        drains, and messages about them
``lag``           how far tables are behind, for metrics
``future_times``  how long records wait although another gateway's clock is ahead

How records are appended by a journal and read from it is in ``engine``.
"""
