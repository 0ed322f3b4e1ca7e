"""What every route needs of HTTP: bodies and parameters in, answers out, the way from a path to its route past FastAPI.

No topic, no group and no gateway is known here: limits, budgets and pools are handed in.
"""
