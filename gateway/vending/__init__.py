"""Temporary credentials for the store, for programs that read or write topics past the gateway.

``policy``    what such credentials may do
``settings``  the role that is assumed
``vending``   asks the token service for them

Whether the caller may have them is not decided here.
"""
