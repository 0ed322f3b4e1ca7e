"""HTTP for every route: bodies and parameters in, answers out, dispatch from path to route past FastAPI.

No topic, no group and no gateway is known here: limits, budgets and pools are handed in.
"""
