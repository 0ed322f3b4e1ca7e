"""Temporary credentials for the store, for programs that read or write topics without the gateway.

``policy``    what such credentials may do
``settings``  the role that is assumed
``vending``   requests to the token service

Whether the caller may have them is not decided here.
"""
