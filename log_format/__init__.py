"""The format: what lies in the bucket, and the rules by which it may change.

Every other package imports this one and meets the others only as bytes in the store. ``docs/format.md`` is the
normative text; the modules here are its implementation, each for one concept:

==================  ==================================================================================
``errors``          every error that crosses a package boundary, one table of codes
``limits``          every bound, with unit and reason
``store``           the ``ObjectStore`` protocol; adapters are in ``stores/``
``clock``           the ``Clock`` protocol
``layout``          which object lies where
``records``         Arrow schemas of records
``partitioner``     key -> partition, Kafka's default hash
``topic_config``    topic names and settings
``run``             what a commit says of a segment
``segment``         records <-> one Parquet object; ``segment_footer`` is its list of row groups
``delta``           Delta actions <-> the bytes of one commit
``manifest``        partition -> segments by offset and by timestamp
``topic_state``     the replayed state of one topic at one version
``change``          a wish -> the actions that fulfil it at a given state, or a refusal: ``append``, ``topic_changes``
``checkpoint``      the reconciled log as one Parquet object
``topic_log``       state of a topic kept fresh from a store
``committer``       the conditional PUT, and everything that can go wrong with it
``segment_reader``  offsets -> records, by ranges, from a store; with ``footer_cache``, ``cut`` and ``record_bytes``
``verify``          reads a whole topic and proves it
==================  ==================================================================================

Only ``topic_log``, ``committer``, ``segment_reader``, ``verify`` and ``stores`` do I/O, all through an ``ObjectStore`` that
they are given. Nothing here reads a clock, randomness or the environment by itself, but for ``stores`` at construction.
"""
