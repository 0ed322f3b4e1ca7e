"""What every request gets, one concept a file: pure ASGI middlewares, outermost first in ``gateway.app``."""
