"""Pure ASGI middlewares around every request, one concept a file; ``gateway.app`` puts them in order.

They do not know routes or other parts of the gateway: what a middleware needs is passed in as a value or a function.
"""
