"""Transactions: begun, staged, decided, applied. Any gateway finishes a transaction that another decided.

No HTTP is known here.
"""
