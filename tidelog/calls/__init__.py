"""One file for each part of the API: its requests, and what their answers say.

A call keeps no state between two requests; ``producer`` and ``consumer`` do.
"""
