"""What every request gets, one concept a file: pure ASGI middlewares, outermost first in ``gateway.app``.

No route and no part of the gateway is known here: what a middleware needs is handed in as a value or a function.
"""
