"""What clients leave behind in the store's tables stays in every gateway's memory: it is counted, and growth has an end."""

from __future__ import annotations

from pathlib import Path

from tests.support.attacks.lists import METADATA_PARTITIONS, commit_metadata
from tests.support.gateway_process import StartGateway
from tests.support.siege import besiege

_LIMIT = 2 * 1024 * 1024


def test_offsets_with_much_metadata_end_where_the_budget_does(tmp_path: Path, start_gateway: StartGateway) -> None:
    """Groups with 16 MB of metadata each: those that do not fit are refused (503, nothing happened), and memory keeps its bound,
    that of the next gateway, too. What is there can be committed again, and deleted, and then there is room."""
    store = str(tmp_path / "store")
    gateway = start_gateway(store)
    gateway.topic("t", 4_000)
    names = iter(range(1_000))
    statuses: list[int] = []

    def attack() -> None:
        statuses.extend(
            commit_metadata(gateway.http, f"g{next(names)}", METADATA_PARTITIONS, "x" * 4_000).status_code
            for _ in range(4)
        )

    besiege(gateway, attack)
    assert statuses[:2] == [200, 503]
    assert gateway.metric('tidelog_state_refusals_total{of="groups"}') >= 1
    again = start_gateway(store)
    again.reset_peak()
    assert commit_metadata(again.http, "more", METADATA_PARTITIONS, "x" * 4_000).status_code == 503
    assert commit_metadata(again.http, "g0", METADATA_PARTITIONS, "y" * 4_000).status_code == 200
    assert again.http.delete("/v1/groups/g0").status_code == 204
    assert commit_metadata(again.http, "more", 10, "x" * 4_000).status_code == 200
    assert again.peak_bytes() < 600 << 20


def test_a_gateway_starts_with_a_table_past_its_budget(tmp_path: Path, start_gateway: StartGateway) -> None:
    """Where the table is larger than may be, all that does not make it larger goes on."""
    store = str(tmp_path / "store")
    gateway = start_gateway(store)
    gateway.topic("t", 1_000)
    assert commit_metadata(gateway.http, "large", 1_000, "x" * 4_000).status_code == 200
    assert gateway.end() == 0
    small = start_gateway(store, "--groups-bytes-max", str(_LIMIT))
    problem = commit_metadata(small.http, "other", 1, None)
    assert (problem.status_code, problem.json()["may_have_happened"]) == (503, False)
    assert "groups_bytes_max" in problem.json()["detail"]
    assert small.http.post("/v1/groups/other/members", json={"topics": ["t"]}).status_code == 503
    assert commit_metadata(small.http, "large", 1_000, "x" * 4_000, offset=0).status_code == 200
    assert len(small.http.get("/v1/groups/large/offsets").json()["offsets"]) == 1_000
    assert commit_metadata(small.http, "large", 1_000, None).status_code == 200
    member = small.http.post("/v1/groups/other/members", json={"topics": ["t"]})
    assert member.status_code == 201, member.text
    path = f"/v1/groups/other/members/{member.json()['member_id']}"
    assert small.http.delete(path).status_code == 204


def test_many_topics_of_many_partitions_are_forgotten(tmp_path: Path, start_gateway: StartGateway) -> None:
    """What a gateway knows of unused topics leaves memory, also when they were only made; a page of them is bounded."""
    gateway = start_gateway(str(tmp_path / "store"), "--manifest-bytes-max", str(4 * 1024 * 1024))
    names = iter(range(1_000))

    def attack() -> None:
        for _ in range(30):
            gateway.topic(f"t{next(names)}", 10_000)
        page = gateway.http.get("/v1/topics", params={"limit": 1_000})
        assert page.status_code == 200
        assert len(page.content) < 4 << 20
        assert "next" in page.json()

    besiege(gateway, attack)
    assert gateway.metric('tidelog_state_bytes{of="topics"}') <= 4 << 20
    assert gateway.metric("tidelog_topics_loaded") < 30


def test_transactional_ids_have_an_end(tmp_path: Path, start_gateway: StartGateway) -> None:
    """Each is remembered for days: what they take is told, and it is far below what is permitted after a few."""
    gateway = start_gateway(str(tmp_path / "store"))
    for number in range(20):
        answer = gateway.http.post("/v1/producers", json={"transactional_id": f"id-{number}" * 20})
        assert answer.status_code in (200, 201), answer.text
    used = gateway.metric('tidelog_state_bytes{of="transactional_ids"}')
    assert 0 < used < gateway.metric('tidelog_state_bytes_limit{of="transactional_ids"}')
