"""Conversion of records from and to HTTP bodies: pure functions between bytes and Arrow. No I/O, no clock, no event loop.

In: ``json_body``, ``ndjson_body``, ``arrow_body``, ``raw_body`` decode a request's body to ``IncomingRecords`` or raise
``RequestRefused``; ``route`` assigns partitions and timestamps; ``record_checks`` refuses what a topic does not accept. Out:
``json_answer``, ``arrow_answer`` and ``event_stream`` encode the answer of a fetch. ``media_type`` and ``compression`` handle the
headers.
"""
