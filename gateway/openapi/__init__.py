"""The OpenAPI document of ``/v1`` and the page that shows it.

What a route does is not known here: routes hand in their own descriptions.
"""
