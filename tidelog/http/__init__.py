"""One HTTP request to a gateway, repeated where that is safe: connections, the choice of a gateway, problems as errors.

Nothing here knows what a request means (``calls``) or how its body is made (``bodies``).
"""
