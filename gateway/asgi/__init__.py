"""Pure ASGI middlewares around every request, one concept a file; ``gateway.app`` puts them in order.

They know no route and no part of the gateway: what a middleware needs is handed in as a value or a function.
"""
