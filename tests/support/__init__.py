"""What two or more tests share: clocks, stores, gateways, benches, fakes. One thing a module; nothing here is a test.

No fixture lives here: a ``conftest.py`` makes what tests ask for by name from these parts, and each test imports the types.
"""
