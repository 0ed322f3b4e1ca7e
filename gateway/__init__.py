"""The gateway: HTTP in front of the log. It keeps nothing that a restart would miss.

Outside in: ``server`` and ``protocol`` (sockets and HTTP/1.1), ``asgi/`` (what every request gets), ``routes/`` (one file for
each part of the API), the engine (topics, flushes, the tail in memory), and ``log_format`` below all of it.
"""
