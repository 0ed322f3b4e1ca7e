"""The schema registry of a gateway: schemas are parsed and compared in threads, and registered by commits of ``system/schemas``.

Confluent's API is not here, but in ``gateway.registry``.
"""
