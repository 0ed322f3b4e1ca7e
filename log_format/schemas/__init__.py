"""Schemas of records: what a schema is, and the system table of the registry, its rows, its state and its changes.

All of it is pure: no clock, no randomness, no request.
"""
