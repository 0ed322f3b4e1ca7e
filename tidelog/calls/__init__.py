"""One file for each part of the API: its requests, and the types of their answers.

Calls keep no state between two requests; ``producer`` and ``consumer`` do.
"""
