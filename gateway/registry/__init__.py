"""Confluent's API of a schema registry, below ``/registry``: a file for each part of it.

What the API does is in ``gateway.schemas`` and ``log_format.schemas``; here are its paths, parameters, bodies and answers.
"""
