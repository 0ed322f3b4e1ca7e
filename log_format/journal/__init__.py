"""Journals: one commit for many quiet topics (docs/decisions/035-journals.md).

A journal is a Delta table, ``system/journals/<n>``. A flush to a journal is one object with the records of many topics, and one
commit that gives the records their offsets. This package has the form of such objects and commits (``journal_object``,
``content``, ``entries``, ``object_tags``), the state of a journal (``state``, ``topics``, ``undrained``), changes to a journal
(``append``, ``notes``, ``drain``), and a topic's state combined from its own log and its journal (``view``).
"""
