"""Passing requests on to the gateway that owns their topic, partition or group.

``forwarding``   which requests go where, and what a failure on the way means
``connections``  HTTP/1.1 connections to other gateways
``crossing``     which headers cross between gateways

Who the owner is, ``cluster`` says. What a request does at its owner is not known here.
"""
