"""The OpenAPI document of ``/v1`` and the page that shows it.

The routes are not known here: they pass in their own descriptions.
"""
