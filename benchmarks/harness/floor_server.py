"""The floor of every request: the same server stack reads the body, counts it, and sends an answer as long as produce's."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI(openapi_url=None)
ANSWER = b'{"topic":"bench","partitions":[{"partition":0,"base_offset":0,"last_offset":0,"count":1}],"duplicate":false}'


@app.get("/readyz")
async def ready() -> Response:
    """Answer once the server listens."""
    return Response(b"{}", media_type="application/json")


@app.post("/v1/topics/{topic}/records")
async def produce(request: Request) -> Response:
    """Read the body and drop it."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
    return Response(ANSWER, media_type="application/json")


def serve(served: Any) -> None:
    """Run an ASGI application on the port that the command line names, as a gateway runs its own."""
    uvicorn.run(
        served,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=False,
        log_level="warning",
        loop="uvloop",
        http="httptools",
        lifespan="off",
    )


if __name__ == "__main__":
    serve(app)
