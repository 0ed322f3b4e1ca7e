"""One gateway as a process: the assembly of its parts, the server, TLS, connections, descriptors, signals.

The meaning of requests is not known here.
"""
