"""Adapters of ``ObjectStore``, imported only where a program is put together.

==========  ================================================================
``open``    a URI -> a store
``local``   one directory: durable, atomic among the processes of a machine
``s3``      one bucket and prefix, by boto3; the only module that imports it
``memory``  a dictionary, for tests and simulations
``hedged``  in front of one: a slow read is asked twice
==========  ================================================================

One suite tests them all for the promises of ``log_format.store``: ``tests/conformance/test_object_store.py``.
"""

from log_format.stores.open import open_store

__all__ = ["open_store"]
