"""How records enter and leave over HTTP: pure functions between bytes and Arrow. No I/O, no clock, no event loop.

In: ``json_body``, ``ndjson_body``, ``arrow_body``, ``raw_body`` make ``IncomingRecords`` of a request's body or raise
``RequestRefused``; ``route`` gives them partitions and timestamps; ``record_size`` measures them. Out: ``json_answer``,
``arrow_answer`` and ``event_stream`` write what a fetch answers. ``media_type`` and ``compression`` are the headers' part.
"""
