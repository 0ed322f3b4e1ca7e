"""The format: the objects in the bucket, and the rules by which they may change.

Every other package imports this one, and meets the others only as bytes in the store. ``docs/format.md`` is normative. Each
folder imports only folders below it (import-linter):

===========================================  ======================================================================
``inspection``                               verifies a topic, diagnoses a store
``transactions``, ``groups``, ``queues``,    the system tables
``access``
``checkpoints``                              the reconciled log as one Parquet object, and states loaded from it
``scheduled``                                delayed records
``journal``                                  one commit for many quiet topics
``topic``                                    the state of one topic, and every change that can be proposed to it
``manifest``                                 partition -> segments by offset and by timestamp
``delta``                                    any Delta table's log, and the conditional PUT that commits to it
``segments``                                 records <-> one Parquet object
``cluster``                                  what the gateways of one store share
``records``                                  a record: its columns, its size, its partition
``stores``                                   adapters of the ``ObjectStore`` protocol: directory, S3, memory
===========================================  ======================================================================

Modules at the root: ``errors`` (one table of codes), ``limits`` (every bound, with unit and reason), ``store`` (the protocol, and
reading within a limit), ``layout`` (the keys of all objects), ``clock`` and ``ids`` (time and randomness as arguments),
``version``.

Logs, committer, segment reader, checkpoints and inspection do I/O, always through an ``ObjectStore`` that their caller passes in.
Nothing here reads a clock, randomness or the environment by itself. The exception is ``stores``, at construction.
"""
