"""The format: what lies in the bucket, and the rules by which it may change.

Every other package imports this one and meets the others only as bytes in the store. ``docs/format.md`` is the normative text.
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

The ground is here: ``errors`` (one table of codes), ``limits`` (every bound, with unit and reason), ``store`` (the protocol),
``layout`` (which object lies where), ``clock`` and ``ids`` (what time and randomness look like), ``bounded_read``, ``version``.

Logs, committer, segment reader, checkpoints and inspection do I/O, all through an ``ObjectStore`` that they are given. Nothing
here reads a clock, randomness or the environment by itself, but for ``stores`` at construction.
"""
