"""The table ``system/transactions``: its rows and changes, the staged objects, and how a transaction is finished.

A gateway, and a program without one (Spark's sink, maintenance), decide and finish by the same code.
"""
