"""Authentication and authorization: from credentials to callers, from callers and ACLs to decisions.

Nothing here knows routes, and of HTTP only the header ``Authorization``. Middlewares check requests before the routes. Routes ask
``Rights`` about resources that a body names.
"""
