"""Iceberg's REST catalog, below ``/iceberg``: every topic is a table of the namespace ``topics``. It only reads (decision 116).

Snapshots and manifests are described in ``log_format.iceberg``, and ``gateway.engine`` says when they are made; here are the
catalog's paths, parameters and answers. Requests that would write have no route: ``gateway.iceberg_problem`` answers them.
"""
