"""uvicorn's insides that the gateway is built on. pyproject.toml bounds its version; look here before raising that bound."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server

from gateway.process import movable_protocol, protocol, server, tls_protocol

PROTOCOL = """
    _start_asgi_task connection_lost connection_made data_received on_header on_headers_complete on_message_begin
    on_message_complete on_response_complete on_url scope send_400_response shutdown
    app connections cycle expect_100_continue flow headers loop parser pipeline server_state transport url
"""
CYCLE = (
    "body disconnected keep_alive message_event more_body response_complete response_started waiting_for_100_continue"
)
FLOW = "pause_reading read_paused resume_reading"
SERVER = (
    "capture_signals config force_exit lifespan main_loop on_tick server_state servers should_exit shutdown startup"
)
STATE = "connections default_headers tasks total_requests"
OWNERS: dict[type, tuple[str, str, tuple[ModuleType, ...]]] = {
    HttpToolsProtocol: ("self", PROTOCOL, (protocol, tls_protocol, movable_protocol)),
    RequestResponseCycle: ("cycle", CYCLE, (protocol, tls_protocol, movable_protocol)),
    FlowControl: ("flow", FLOW, (protocol, tls_protocol)),
    Server: ("self", SERVER, (server,)),
    uvicorn.server.ServerState: ("server_state", STATE, (server, protocol)),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_what_is_used_is_named_and_there(owner: type) -> None:
    """A member that uvicorn renames or drops, and one that the gateway begins to use, is named here by a failure."""
    name, expected, modules = OWNERS[owner]
    used = set().union(*(_members_used(inspect.getsource(module), name) for module in modules))
    assert sorted(used & _members(owner)) == sorted(expected.split())


def test_a_connection_takes_what_it_is_given() -> None:
    """The gateway makes connections itself, by position, for the operations listener."""
    parameters = list(inspect.signature(HttpToolsProtocol.__init__).parameters)
    assert parameters == ["self", "config", "server_state", "app_state", "_loop"]


def _members_used(source: str, owner: str) -> set[str]:
    """Of ``owner.x`` and ``y.owner.x``, and of what a class overrides when it is ``self``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and owner in (
            getattr(node.value, "id", ""),
            getattr(node.value, "attr", ""),
        ):
            found.add(node.attr)
        elif owner == "self" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return found - {"__init__"}


def _members(owner: type) -> set[str]:
    """Its methods, and what its own methods set."""
    return set(vars(owner)) | _members_used(inspect.getsource(owner), "self")
