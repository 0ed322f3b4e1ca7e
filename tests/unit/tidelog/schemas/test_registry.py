"""``Admin.schemas``: the registry's calls over the in-process gateway; what is asked, what is retried, what errors become."""

from __future__ import annotations

import asyncio
import inspect
import json

import pytest

import tidelog.aio
from tests.support.fake_gateway import FakeGateway
from tidelog import Admin
from tidelog.aio.schemas import Schemas as AwaitedSchemas
from tidelog.calls.schemas import Schemas
from tidelog.errors import (
    BackOff,
    GatewayError,
    IncompatibleSchema,
    OutcomeUnknown,
    RequestRefused,
    SchemaRefused,
    Throttled,
    Unauthenticated,
    Unauthorized,
    UnknownSchema,
)
from tidelog.types.schema import SchemaReference

VERSION = {"subject": "s", "version": 3, "id": 7, "schema": "{}", "schemaType": "JSON"}


def test_a_registration_is_retried_and_names_everything(gateway: FakeGateway) -> None:
    """After a lost answer it is asked again: it changes nothing then. A subject's special characters are encoded."""
    gateway.misbehave("POST /registry", gateway.lose(done=False))
    gateway.will_answer("POST /registry", VERSION)
    with Admin(gateway.url) as admin:
        made = admin.schemas().register(
            "a/b c", "{}", "JSON", references=[SchemaReference("Order", "orders-value", 2)], normalize=True
        )
    assert (made.subject, made.version, made.id, made.schema_type) == ("a/b c", 3, 7, "JSON")
    first, second = gateway.asked
    assert first.path == second.path == "/registry/subjects/a%2Fb%20c/versions"
    assert first.query == {"normalize": "true"}
    references = [{"name": "Order", "subject": "orders-value", "version": 2}]
    assert json.loads(second.body) == {"schema": "{}", "schemaType": "JSON", "references": references}


def test_a_deletion_is_never_retried(gateway: FakeGateway) -> None:
    """Its outcome is unknown when the answer is lost. For ever includes the deletion before, if there was none."""
    gateway.misbehave("DELETE", gateway.lose(done=False))
    with Admin(gateway.url) as admin:
        schemas = admin.schemas()
        with pytest.raises(OutcomeUnknown):
            schemas.delete("s")
        assert gateway.count("DELETE") == 1
        gateway.will_answer("DELETE", {"error_code": 40404, "message": "was soft deleted"}, 404)
        gateway.will_answer("DELETE", [1, 2])
        assert schemas.delete("s", permanent=True) == [1, 2]
        assert [asked.query for asked in gateway.asked[1:]] == [{}, {"permanent": "true"}]
        gateway.will_answer("DELETE", {"error_code": 40402, "message": "Version 1 not found."}, 404)
        with pytest.raises(UnknownSchema, match="Version 1 not found"):
            schemas.delete("s", 1)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, 401, Unauthenticated),
        (403, 403, Unauthorized),
        (404, 40401, UnknownSchema),
        (409, 409, IncompatibleSchema),
        (422, 42201, SchemaRefused),
        (429, 429, Throttled),
        (503, 50001, BackOff),
        (504, 50002, OutcomeUnknown),
    ],
)
def test_the_registrys_errors_say_what_to_do_next(
    gateway: FakeGateway, status: int, code: int, kind: type[GatewayError]
) -> None:
    """Confluent's numbers become classes; the number and the message stay."""
    for _ in range(200):
        gateway.will_answer("PUT", {"error_code": code, "message": "what is wrong"}, status)
    with Admin(gateway.url, timeout_ms=150) as admin, pytest.raises(kind, match="what is wrong") as raised:
        admin.schemas().set_compatibility("s", "FULL")
    assert raised.value.fields["error_code"] == code
    assert raised.value.retryable == (status in {429, 503, 504})
    if isinstance(raised.value, SchemaRefused):
        assert raised.value.registry_code == code
        assert isinstance(raised.value, RequestRefused)


def test_levels_of_subjects_and_of_all(gateway: FakeGateway) -> None:
    """None is a subject without its own level; taking back what is not there is no error."""
    missing = {"error_code": 40408, "message": "none"}
    gateway.will_answer("GET /registry/config/s", missing, 404)
    gateway.will_answer("GET /registry/config$", {"compatibilityLevel": "BACKWARD"})
    gateway.will_answer("DELETE /registry/config/s", missing, 404)
    with Admin(gateway.url) as admin:
        schemas = admin.schemas()
        assert schemas.compatibility("s") is None
        assert schemas.compatibility() == "BACKWARD"
        schemas.set_compatibility("s", None)


def test_the_twin_has_the_same_calls(gateway: FakeGateway) -> None:
    """With the same parameters; an awaited call gives the same."""
    for name, function in inspect.getmembers(Schemas, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(function) == inspect.signature(getattr(AwaitedSchemas, name)), name
    gateway.will_answer("GET /registry/subjects/s/versions/latest", VERSION)

    async def main() -> None:
        async with tidelog.aio.Admin(gateway.url) as admin:
            assert (await admin.schemas().latest("s")).id == 7

    asyncio.run(main())
