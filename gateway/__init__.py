"""The gateway: HTTP in front of the log. A restart loses nothing.

From the outside in; each folder knows only the folders below it:

``process``         the process and its sockets; ``assembly`` makes a ``Gateway`` of its settings
``app``             the ASGI application: middlewares around the routes
``routes``          one file for each part of the API; ``openapi`` describes them
``gateway``         one gateway, whole: what routes and the server are given
``forwarding``      passes requests on to other gateways
``catch_up_reads``  old records read by processes of lower priority
``log_engine``      what the routes call, put together from the next three
``transactions``, ``groups``, ``engine``
``cluster``         which other gateways live, and which owns what
``asgi``, ``http``, ``codec``  what each request needs of HTTP, and records as bytes

``settings`` reads what an operator may set. ``network``, ``stores``, ``tasks``, ``telemetry``, ``call``, ``memory_budget`` and
``problem`` know no folder above them. ``log_format`` is below all.
"""
