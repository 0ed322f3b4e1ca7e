"""Authentication and authorization: credentials to callers, callers and ACLs to answers.

It knows no route, and of HTTP only the header ``Authorization``. Middlewares ask it ahead of the routes. Routes ask ``Rights``
for what stands in a body.
"""
