"""Journals: one commit for many quiet topics (docs/decisions/035-journals.md).

A journal is a Delta table, ``system/journals/<n>``. A flush to it is one object with the records of many topics, and one commit
that gives them their offsets. Here: what such an object and such a commit look like (``journal_object``, ``content``,
``entries``, ``placed``), the state of a journal (``state``, ``topics``, ``undrained``), the changes to it (``append``, ``notes``,
``drain``), and a topic as its own log and a journal give it together (``view``).
"""
