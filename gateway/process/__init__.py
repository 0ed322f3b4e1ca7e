"""One gateway as a process: the assembly of its parts, the server, TLS, connections, descriptors, signals.

What a request means is not known here.
"""
