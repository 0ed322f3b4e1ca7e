"""Transactions: begun, staged, decided, applied. Any gateway finishes one that another decided.

No HTTP is known here.
"""
