"""``tidelog topic erase``, ``topic erasures`` and ``verify --erased``, on a gateway and its directory."""

from __future__ import annotations

import json
from pathlib import Path

from deltalake import DeltaTable

from tests.support.command_runs import runner
from tests.support.gateway_process import running_gateway
from tests.support.maintained import maintain
from tidelog import Admin, Producer


def test_a_person_is_erased_from_the_command_line(tmp_path: Path) -> None:
    """From the request to the proof: asked, carried out by maintenance, verified; and no backup brings it back."""
    store = tmp_path / "log"
    with running_gateway(store, tmp_path / "gateway.log") as gateway:
        with Admin(gateway.url) as admin:
            admin.create_topic("orders", 1, {"flush.ms": 0, "erase.grace.ms": 0})
        with Producer(gateway.url) as producer:
            producer.send("orders", b"secret", key=b"user-7", headers=[("user", b"7")]).result(60)
            producer.send("orders", b"other", key=b"user-8").result(60)
        run = runner(gateway.url)
        assert run("backup", tmp_path / "backup", "--store", store).exit_code == 0
        asked = run("topic", "erase", "orders", "--key", "user-7", "--header", "user=7", "--yes")
        assert asked.exit_code == 0, asked.output
        assert "Not reached" in asked.output
        assert run("verify", "orders", "--erased", "user-7", "--store", store).exit_code == 1
        maintain(store)
        shown = run("topic", "erasures", "orders", "--json")
        (one,) = json.loads(shown.stdout)["erasures"]
        assert (one["status"], one["records"], one["keys"], one["headers"]) == ("rewritten", 1, 1, 1)
        assert "1 record" in run("topic", "erasures", "orders", COLUMNS="200").output
        proof = run("verify", "orders", "--erased", "user-7", "--store", store)
        assert proof.exit_code == 0, proof.output
        with Admin(gateway.url) as admin:
            assert admin.describe_erasure("orders", one["erasure_id"]).status == "rewritten"
        assert run("topic", "erase", "orders", "--yes").exit_code == 2
        restored = tmp_path / "restored"
        copied = run("restore", tmp_path / "backup", "--store", restored, "--erasures-of", store)
        assert copied.exit_code == 0, copied.output
        assert "Erasing what was erased since the backup in 1 topic" in copied.output
        assert DeltaTable(restored / "topics" / "orders").to_pyarrow_table()["value"].to_pylist() == [None, b"other"]
        schema = tmp_path / "order.avsc"
        schema.write_text('{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}')
        assert run("schema", "register", "typed-value", schema).exit_code == 0
        made = run("topic", "create", "typed", "--partitions", "1", "--value-schema", "typed-value")
        assert made.exit_code == 0, made.output
        with Producer(gateway.url) as producer:
            for number in (7, 8):
                producer.send("typed", b'{"id": %d}' % number, key=b"k").result(60)
        for where, said in (("data.nobody = 7", "no such member"), ("data.id = '7'", "int64"), ("data.id", "the end")):
            refused = run("topic", "erase", "typed", "--where", where, "--yes")
            assert refused.exit_code != 0
            assert said in " ".join(refused.output.split()), refused.output
        assert run("topic", "erase", "typed", "--where", "data.id = 7", "--yes").exit_code == 0
        maintain(store)
        left = DeltaTable(store / "topics" / "typed").to_pyarrow_table().sort_by("offset")
        assert left["value"].to_pylist() == [None, b'{"id": 8}']
        proof = run("verify", "typed", "--erased-where", "data.id=7", "--store", store)
        assert proof.exit_code == 1, "the files of before stay for the grace time"
        unknown = run("verify", "orders", "--erased", "nobody", "--store", store)
        assert "names this key" in unknown.output
        assert unknown.exit_code == 4
