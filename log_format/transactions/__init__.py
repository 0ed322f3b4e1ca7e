"""The table ``system/transactions``: its rows and changes, the staged objects, and how a decided transaction is finished.

Gateways, and programs without one (Spark's sink, maintenance), decide and finish transactions by the same code.
"""
