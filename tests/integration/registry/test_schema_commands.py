"""``tidelog schema …`` against a real gateway: what users type, from the first version to the last."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from tests.support.command_runs import Run, runner
from tests.support.registry import Registry, record
from tidelog import Producer
from tidelog.cli.terminal.exit_code import ExitCode


@pytest.fixture
def run(registry: Registry) -> Run:
    """Runs commands against the module's gateway."""
    return runner(str(registry.http.base_url).removesuffix("/registry/"))


def test_a_subject_from_its_first_version_to_its_last(run: Run, name: str, tmp_path: Path) -> None:
    """Register, show, list, check with reasons, refuse what is not compatible, delete: each says what happened."""
    first, second, wrong = tmp_path / "1.avsc", tmp_path / "2.avsc", tmp_path / "3.avsc"
    first.write_text(record("Order", id="long"))
    second.write_text(record("Order", id="long", note=("string", "")))
    wrong.write_text(record("Order", id="string"))
    said = run("schema", "register", name, first)
    assert (said.exit_code, said.stdout) == (0, "")
    assert f"Subject {name} has the schema as version 1, id " in said.stderr
    assert "is compatible" in run("schema", "check", name, second).stderr
    made = json.loads(run("schema", "register", name, second, "--json").stdout)
    assert (made["subject"], made["version"], made["schemaType"]) == (name, 2, "AVRO")

    refused = run("schema", "check", name, wrong)
    assert refused.exit_code == ExitCode.FAILED
    assert f"{wrong} is not compatible with version 2 of {name}." in refused.stderr
    assert "  TYPE_MISMATCH: The type at '/fields/0/type' " in refused.stderr
    refused = run("schema", "register", name, wrong)
    assert refused.exit_code == ExitCode.REFUSED
    assert f"not compatible with version 2 of subject {name}, and is not registered." in refused.stderr
    assert "[409]\n  TYPE_MISMATCH: The type at '/fields/0/type' " in refused.stderr

    shown = run("schema", "show", name, "--version", "1")
    assert json.loads(shown.stdout) == json.loads(first.read_text())
    assert f"{name}, version 1, id " in shown.stderr
    assert json.loads(run("schema", "show", name, "--json").stdout)["id"] == made["id"]
    assert name in run("schema", "list", "--prefix", name).stdout
    assert [each["version"] for each in json.loads(run("schema", "versions", name, "--json").stdout)["versions"]] == [
        1,
        2,
    ]

    assert "version 1." in run("schema", "delete", name, "--version", "1", "--yes").stderr
    assert json.loads(run("schema", "delete", name, "--permanent", "--yes", "--json").stdout) == {"deleted": [1, 2]}
    gone = run("schema", "show", name)
    assert gone.exit_code == ExitCode.REFUSED
    assert f"Subject '{name}' not found. 'tidelog schema list' shows the subjects" in gone.stderr


def test_what_differs_is_shown_by_member(run: Run, name: str, tmp_path: Path) -> None:
    """Between the last two versions, any two, and a version and a file; another layout is no difference."""
    note = ("string", "")
    texts = record("Order", id="long"), record("Order", id="long", note=note), record("Order", note=note)
    first = tmp_path / "first.avsc"
    first.write_text(texts[0])
    assert run("schema", "register", name, first).exit_code == 0
    assert run("schema", "diff", name).stderr == f"{name} has one version, 1.\n"
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.avsc"
        file.write_text(text)
        assert run("schema", "register", name, file).exit_code == 0
    shown = run("schema", "diff", name).stdout.splitlines()
    assert shown[:2] == ["--- version 2", "+++ version 3"]
    assert '-      "name": "id",' in shown
    assert not [line for line in shown[2:] if line.startswith("+")]
    told = json.loads(run("schema", "diff", name, "--from", "1", "--to", "2", "--json").stdout)
    assert (told["subject"], told["from"], told["to"]) == (name, 1, 2)
    assert '+      "name": "note",' in told["lines"]
    file = tmp_path / "again.avsc"
    file.write_text(json.dumps(json.loads(texts[-1]), indent=7))
    same = run("schema", "diff", name, file)
    assert (same.stdout, same.stderr) == ("", f"Version 3 of {name} and {file} do not differ.\n")
    assert run("schema", "diff", name, file, "--to", "1").exit_code == ExitCode.USAGE
    assert run("schema", "diff", name, "--to", "9").exit_code == ExitCode.REFUSED


def test_the_type_is_the_endings_or_given(run: Run, name: str, tmp_path: Path) -> None:
    """Three formats by their endings; a file without one asks for --type; standard input takes it, too."""
    json_schema, proto, other = tmp_path / "o.json", tmp_path / "o.proto", tmp_path / "order"
    json_schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    proto.write_text('syntax = "proto3"; message Order { int64 id = 1; }')
    other.write_text('"string"')
    for file, kind in ((json_schema, "JSON"), (proto, "PROTOBUF")):
        made = run("schema", "register", f"{name}-{kind}", file, "--json")
        assert json.loads(made.stdout)["schemaType"] == kind, made.stderr
    refused = run("schema", "register", name, other)
    assert refused.exit_code == ExitCode.USAGE
    assert "give --type" in refused.stderr
    assert run("schema", "register", name, other, "--type", "AVRO").exit_code == 0
    assert run("schema", "register", name, "-", "--type", "avro", given=b'"string"').exit_code == 0
    assert run("schema", "register", name, tmp_path / "none.avsc").exit_code == ExitCode.FAILED
    refused = run("schema", "register", name, "-", "--type", "avro", "--json", given=b'{"type": "nothing"}')
    assert refused.exit_code == ExitCode.REFUSED
    assert json.loads(refused.stderr)["error"]["error_code"] == 42201


def test_a_schema_refers_to_a_version(run: Run, name: str, tmp_path: Path) -> None:
    """--reference gives the version that a name stands for; show says so; another form is an error of usage."""
    order, cart = tmp_path / "order.avsc", tmp_path / "cart.avsc"
    order.write_text(record("Order", id="long"))
    cart.write_text(record("Cart", order="Order"))
    assert run("schema", "register", f"{name}:o", order).exit_code == 0
    assert run("schema", "register", name, cart).exit_code == ExitCode.REFUSED
    assert run("schema", "register", name, cart, "--reference", f"Order={name}:o:1").exit_code == 0
    assert f"refers to Order: {name}:o, version 1" in run("schema", "show", name).stderr
    assert run("schema", "register", name, cart, "--reference", "Order").exit_code == ExitCode.USAGE
    held = run("schema", "delete", f"{name}:o", "--version", "1", "--yes")
    assert held.exit_code == ExitCode.REFUSED
    assert "[42206]" in held.stderr


def test_a_level_is_shown_set_and_taken_back(run: Run, name: str) -> None:
    """Of one subject and of all; what could be meant for all by mistake is refused."""
    assert "BACKWARD, as all without their own." in run("schema", "compatibility", name).stderr
    assert f"Subject {name}: FULL." in run("schema", "compatibility", name, "full").stderr
    assert json.loads(run("schema", "compatibility", name, "--json").stdout) == {
        "subject": name,
        "compatibility": "FULL",
        "own": True,
    }
    assert "BACKWARD, as all" in run("schema", "compatibility", name, "--reset").stderr
    assert "BACKWARD, as all" in run("schema", "compatibility", name, "--reset").stderr
    assert run("schema", "compatibility", "FULL").exit_code == ExitCode.USAGE
    assert run("schema", "compatibility", name, "some").exit_code == ExitCode.USAGE
    assert "level: FORWARD." in run("schema", "compatibility", "--all", "FORWARD").stderr
    assert "FORWARD, as all" in run("schema", "compatibility", name).stderr
    assert "level: BACKWARD." in run("schema", "compatibility", "--all", "--reset").stderr


def test_a_typed_topic_from_its_schema_to_its_values(run: Run, registry: Registry, name: str, tmp_path: Path) -> None:
    """Register, create, produce, be refused with the path, and see what a Kafka program has sent as JSON."""
    file = tmp_path / "order.avsc"
    file.write_text(record("Order", id="long", amount="double"))
    schema_id = json.loads(run("schema", "register", f"{name}-value", file, "--json").stdout)["id"]
    created = run("topic", "create", name, "--value-schema", f"{name}-value", "-c", "flush.ms=0")
    assert created.exit_code == 0, created.stderr
    described = run("topic", "describe", name).stdout
    assert f"values   {name}-value, version 1 (id {schema_id}, AVRO), in column data; " in described
    assert re.search(r"\ndata.id +long *\ndata.amount +double *\ndata_error +string *\n", described)
    assert f"query    tidelog sql 'select data.id, data.amount from \"{name}\" limit 10'" in described
    assert "marked " not in described, "nothing is stored yet"
    assert run("produce", name, "--format", "objects", given=b'{"id": 1, "amount": 3.5}').exit_code == 0
    refused = run("produce", name, "--format", "objects", given=b'{"id": "one", "amount": 3.5}')
    assert refused.exit_code == ExitCode.REFUSED
    assert "it must be an integer" in refused.stderr
    assert "id" in refused.stderr
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(file.read_text()), {"id": 2, "amount": 0.5})
    with Producer(str(registry.http.base_url).removesuffix("/registry/")) as producer:
        producer.send(name, b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
    assert run("topic", "alter", name, "-c", "data.on.error=mark").exit_code == 0
    with Producer(str(registry.http.base_url).removesuffix("/registry/")) as producer:
        producer.send(name, b"3")
    described = run("topic", "describe", name).stdout
    assert "marked   1 of 3 records in the 3 newest commits; column data_error says why" in described
    columns = json.loads(run("topic", "describe", name, "--json").stdout)["columns"]
    assert columns[1] == {"name": "data.amount", "type": "double"}
    assert re.search(rf"topic +schema +partitions.*\n{name} +{name}-value +1 +3 ", run("topic", "list").stdout)
    answered = run("sql", f"select data.id, data.amount, data_error from {name} order by 1", "--json")
    assert [json.loads(line) for line in answered.stdout.splitlines()] == [
        {"id": 1, "amount": 3.5, "data_error": None},
        {"id": 2, "amount": 0.5, "data_error": None},
        {"id": None, "amount": None, "data_error": "value: it must be an object, not a number"},
    ]
    shown = run("consume", name)
    assert shown.stdout.splitlines()[:2] == ['{"id": 1, "amount": 3.5}', '{"id":2,"amount":0.5}']
    assert "shown as JSON, by the schema registry" in shown.stderr


def test_an_arrow_schema_becomes_one_of_avro(run: Run, name: str, tmp_path: Path) -> None:
    """--arrow and the ending say the same; a field without a column's type is named."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("amount", pa.decimal128(9, 2))])
    for file, options in ((tmp_path / "order.arrow", ()), (tmp_path / "order", ("--arrow",))):
        file.write_bytes(schema.serialize().to_pybytes())
        made = json.loads(run("schema", "register", name, file, *options, "--json").stdout)
        assert (made["version"], made["schemaType"]) == (1, "AVRO")
        assert [field["name"] for field in json.loads(made["schema"])["fields"]] == ["id", "amount"]
    assert run("schema", "check", name, tmp_path / "order.arrow").exit_code == 0
    file.write_bytes(pa.schema([("t", pa.time64("us"))]).serialize().to_pybytes())
    said = run("schema", "register", name, "--arrow", file)
    assert said.exit_code == ExitCode.USAGE
    assert "t: time64[us] is no type of a topic's columns" in said.stderr
