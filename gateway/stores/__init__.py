"""Stores in front of another store, each for one purpose; ``gateway.process.stores`` puts them together.

``wrapped``        passes each call on unchanged; the others are made of it
``counted``        counts requests, by kind of request and by what the object is
``hedged``         sends slow reads of old segments a second time
``missing_hints``  does not ask again for hints that were missing recently
``own_commits``    remembers the commits that this gateway put, until they are read
``proven``         proves first that the store honours put-if-absent

Adapters of object stores are ``log_format.stores``.
"""
