"""The page at ``/`` without the console: tells a person with a browser which server answers, and links to its routes."""

from __future__ import annotations

from typing import Final

from log_format.version import __version__

HTML: Final = "text/html"
HOME_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "vary": "Accept",
    "x-content-type-options": "nosniff",
}
HOME_PAGE: Final = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Tidelog</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em }}</style>
<h1>Tidelog {__version__}</h1>
<p>This is a gateway of a message log on object storage. It speaks HTTP; there is nothing to click but these.</p>
<ul>
<li><a href="/docs">/docs</a>: every call, from <a href="/openapi.json">/openapi.json</a></li>
<li><a href="/v1/topics">/v1/topics</a>: the topics</li>
<li><a href="/v1/cluster">/v1/cluster</a>: the gateways of this store, and their limits</li>
<li><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>, <a href="/metrics">/metrics</a>: how it is</li>
</ul>
</html>
""".encode()
