"""The gateway: HTTP in front of the log. It keeps nothing that a restart would miss.

Outside in: ``server`` and ``protocol`` (sockets and HTTP/1.1), ``asgi/`` (what every request gets), ``routes/`` (one file for
each part of the API), ``log_engine``, put together from ``transactions/``, ``groups/`` and ``engine/`` (topics, flushes, the tail
in memory), each of which knows only those behind it, and ``log_format`` below all of it.
"""
