"""Adapters of ``ObjectStore``. Programs choose one by ``open``.

==========  ================================================================
``open``    a URI -> a store
``local``   a directory: durable, atomic among the processes of a machine
``s3``      a bucket and prefix, by boto3, which only it and ``s3_*`` import here
``memory``  a dictionary, for tests and simulations
``hedged``  wrapper of a store: sends a second request for a slow read
==========  ================================================================

One test suite checks the promises of ``log_format.store`` for all of them: ``tests/conformance/test_object_store.py``.
"""

from log_format.stores.open import open_store

__all__ = ["open_store"]
