"""The format: the objects in the bucket, and the rules by which they may change.

Every other package imports this one, and meets the others only as bytes in the store. ``docs/format.md`` is normative.
Each folder knows only those below it (import-linter):

=================================  ================================================================================
``inspection``                     verifies a topic, diagnoses a store
``transactions``, ``groups``       the two system tables
``checkpoints``                    the reconciled log as one Parquet object, and a topic's state loaded from it
``topic``                          the state of one topic, and every change that can be proposed to it
``manifest``                       partition -> segments by offset and by timestamp
``delta``                          any Delta table's log, and the conditional PUT that commits to it
``segments``                       records <-> one Parquet object
``records``                        a record: its columns, its size, its partition
``cluster``                        what the gateways of one store share
``stores``                         adapters of the ``ObjectStore`` protocol: directory, S3, memory
=================================  ================================================================================

Modules at the root: ``errors`` (one table of codes), ``limits`` (every bound, with unit and reason), ``store`` (the protocol),
``layout`` (which object lies where), ``clock`` and ``ids`` (time and randomness as arguments), ``bounded_read``, ``version``.

Logs, committer, segment reader, checkpoints and inspection do I/O, always through an ``ObjectStore`` that their caller gives
them. Nothing here reads a clock, randomness or the environment by itself. The exception is ``stores``, at construction.
"""
