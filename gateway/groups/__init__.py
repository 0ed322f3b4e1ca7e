"""Consumer groups: which member reads which partition, and how far each group has read (docs/http-api.md section 7).

No HTTP is known here, nor how a transaction is decided.
"""
