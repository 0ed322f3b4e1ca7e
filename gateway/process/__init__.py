"""One gateway as a process: how its parts are put together, the listening server, TLS, connections, descriptors, signals.

What a request means is not known here.
"""
