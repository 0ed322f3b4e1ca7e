"""Delayed records: objects next to their topic, found by the minute in which they are due, and published once.

This package does not depend on gateways or transactions. Functions that block say so.
"""
