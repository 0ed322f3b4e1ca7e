"""HTTP requests to gateways, retried where that is safe: connections, the choice of a gateway, and problems as exceptions.

Nothing here knows what a request means (``calls``) or how its body is made (``bodies``).
"""
