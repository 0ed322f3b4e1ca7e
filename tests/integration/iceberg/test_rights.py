"""The catalog's callers: tokens as Iceberg's clients show them, the rights that they need, and what ends with these."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyiceberg.exceptions import ForbiddenError, OAuthError, UnauthorizedError

from tests.support.iceberg_reader import iceberg_catalog
from tests.support.secured import Secured, secured_gateway
from tests.support.waiting import until


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_gateway(tmp_path_factory.mktemp("secured")) as (found, _):
        yield found


@pytest.mark.parametrize("shown", ["token", "credential", "credential without an id"])
def test_a_token_is_taken_in_each_form(secured: Secured, shown: str) -> None:
    """As it is, and as the secret of OAuth's client credentials. A user sees what it may describe, and loads what it may read."""
    topic, hidden = secured.topic(), secured.topic()
    assert secured.admin.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": "v"}]}).is_success
    made = secured.token("User:reader")
    given = {
        "token": {"token": made["token"]},
        "credential": {"credential": f"reader:{made['token']}"},
        "credential without an id": {"credential": made["token"]},
    }[shown]
    catalog = iceberg_catalog(secured.url, **given)
    secured.allow("User:reader", "Read", "topic", topic)
    assert catalog.list_tables("topics") == [("topics", topic)]
    assert catalog.load_table(("topics", topic)).scan().to_arrow().num_rows == 1
    for name in (hidden, "nothing"):
        with pytest.raises(ForbiddenError):
            catalog.load_table(("topics", name))
    secured.forget("User:reader")


def test_describe_lists_and_does_not_load(secured: Secured) -> None:
    """A table that a user may not read is there for it, and not more."""
    topic = secured.topic()
    catalog = iceberg_catalog(secured.url, token=secured.token("User:looker")["token"])
    secured.allow("User:looker", "Describe", "topic", topic)
    assert catalog.table_exists(("topics", topic))
    with pytest.raises(ForbiddenError):
        catalog.load_table(("topics", topic))


def test_a_right_that_is_taken_away_ends_loads(secured: Secured) -> None:
    """A table that was loaded before is not answered from memory; a revoked token ends, too."""
    topic = secured.topic()
    made = secured.token("User:former")
    catalog = iceberg_catalog(secured.url, token=made["token"])
    secured.allow("User:former", "Read", "topic", topic)
    catalog.load_table(("topics", topic))
    secured.forget("User:former")
    with pytest.raises(ForbiddenError):
        catalog.load_table(("topics", topic))
    secured.allow("User:former", "Read", "topic", topic)
    catalog.load_table(("topics", topic))
    assert secured.admin.http.delete(f"/v1/access/tokens/{made['id']}").is_success
    with pytest.raises(UnauthorizedError):
        catalog.load_table(("topics", topic))


def test_who_has_no_right_does_not_learn_where_the_store_is(secured: Secured) -> None:
    """As ``GET /v1/cluster`` says it only to who may Describe the cluster."""
    _, caller = secured.caller()
    answer = caller.get("/iceberg/v1/namespaces/topics")
    assert answer.json() == {"namespace": ["topics"], "properties": {}}


def test_who_shows_no_valid_token_gets_none(secured: Secured) -> None:
    """In OAuth's form; failed logins are audited."""
    with pytest.raises(OAuthError, match="invalid_client"):
        iceberg_catalog(secured.url, credential="somebody:tl_wrong")
    for form, status in (({}, 400), ({"grant_type": "password"}, 400), ({"grant_type": "client_credentials"}, 401)):
        answer = secured.admin.http.post("/iceberg/v1/oauth/tokens", data=form)
        assert answer.status_code == status
        assert answer.json()["error"] in ("invalid_request", "invalid_client")
        assert "tl_" not in answer.text
    records = "/v1/topics/__audit/partitions/0/records?offset=earliest"

    def is_audited() -> bool:
        secured.allow("User:bootstrap", "Read", "topic", "__audit")
        answer = secured.admin.http.get(records)
        return answer.is_success and "failed_login" in answer.text

    until(is_audited)
