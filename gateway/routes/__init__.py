"""The API's routes, one file for each part of the contract, and what several of them share.

A route reads a request, calls one part of the engine, and writes the answer. It decides nothing and keeps nothing.
"""
