"""One file for each part of the API: what is asked, and what the answer says.

A call keeps nothing between two requests; what does is in ``producer`` and ``consumer``.
"""
