"""The table ``system/transactions``: its rows, its changes, what a transaction stages, and how one is finished.

A gateway and a program without one (Spark's sink, maintenance) decide and finish by the same code.
"""
