"""HTTP for every route: bodies and parameters in, answers out, dispatch from path to route in place of FastAPI's.

No topic, group or gateway is known here: limits, budgets and pools are passed in.
"""
