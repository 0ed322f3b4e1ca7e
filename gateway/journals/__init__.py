"""Upkeep of journals: topics are drained when it is time, and moved between their own commits and a journal.

``modes``   which topics should be where, by measured rates
``upkeep``  drains, and messages about them
``lag``     how far tables are behind, for metrics

How records are appended by a journal and read from it is in ``engine``.
"""
