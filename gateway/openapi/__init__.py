"""The OpenAPI document of ``/v1`` and the page that shows it."""
