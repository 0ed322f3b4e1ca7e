"""What every route needs of HTTP: bodies and parameters in, held and plain answers out, the direct path past FastAPI.

Nothing here knows a topic or a group.
"""
