"""The least that an HTTP server in Python costs: uvicorn alone reads the body, and sends an answer as long as a gateway's."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from benchmarks.harness.floor_server import ANSWER, serve

_HEARTBEAT = b'{"generation":1,"assignment":[' + b",".join([b'{"topic":"swarm","partition":0}'] * 8) + b"]}"
_COMMIT = b",".join([b'{"topic":"swarm","partition":0,"offset":0,"metadata":null,"committed_at":1763683200000}'] * 8)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and drop it."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body", False):
        pass
    body = _of_group(scope["method"]) if scope["path"].startswith("/v1/groups/") else ANSWER
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _of_group(method: str) -> bytes:
    return _COMMIT if method == "PUT" else _HEARTBEAT


if __name__ == "__main__":
    serve(app)
