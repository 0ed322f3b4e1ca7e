"""The API's routes, one file for each part of the contract, and code that several of them share.

A route reads a request, calls one part of the engine, and returns the answer. Routes make no decisions and hold no state.
"""
