"""``token``, ``acl``, ``role``, ``quota``, ``whoami``, ``credentials``, and the token that every command can send."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.app import app
from tidelog.cli.terminal.exit_code import ExitCode

SECRET = "tl_abcd1234_very-secret"
TOKEN = {
    "id": "abcd1234",
    "principal": "User:billing",
    "groups": ["Group:shop"],
    "description": "till [3]",
    "created_at": 0,
    "secrets": [{"created_at": 0, "expires_at": 86_400_000}],
}
ACL = {
    "principal": "User:billing",
    "operation": "Write",
    "resource_type": "topic",
    "resource": "orders",
    "pattern": "prefix",
    "permission": "allow",
}


def body(gateway: FakeGateway, back: int = 1) -> Any:
    return json.loads(gateway.asked[-back].body)


# Tokens


def test_a_created_token_stands_alone_on_standard_output(gateway: FakeGateway, run: Run) -> None:
    """So that ``> file`` works; what is said about it goes to standard error, without the secret."""
    gateway.will_answer("POST /v1/access/tokens", {**TOKEN, "token": SECRET}, 201)
    made = run("token", "create", "User:billing", "--group", "Group:shop", "--description", "till", "--expires", "30d")
    assert (made.exit_code, made.stdout) == (0, SECRET + "\n")
    assert "abcd1234" in made.stderr
    assert "1970-01-02" in made.stderr
    assert SECRET not in made.stderr
    sent = body(gateway)
    assert (sent["principal"], sent["groups"], sent["description"]) == ("User:billing", ["Group:shop"], "till")
    assert sent["expires_at"] > 0
    gateway.will_answer("POST /v1/access/tokens", {**TOKEN, "token": SECRET}, 201)
    assert json.loads(run("token", "create", "User:billing", "--json").stdout)["token"] == SECRET
    assert "expires_at" not in body(gateway)


def test_a_token_goes_to_a_file_of_its_owners(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """``--output``: mode 0600 whatever the umask, an older file is replaced, and nothing secret is printed."""
    file = tmp_path / "billing.token"
    file.write_text("old")
    file.chmod(0o644)
    before = os.umask(0)
    try:
        for action, arguments in (("POST /v1/access/tokens", ["create", "User:b"]), ("rotate", ["rotate", "abcd1234"])):
            for flags in ([], ["--json"]):
                gateway.will_answer(action, {**TOKEN, "token": SECRET}, 201)
                result = run("token", *arguments, "--output", file, *flags)
                assert result.exit_code == 0, result.output
                assert file.read_text() == SECRET + "\n"
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
                assert SECRET not in result.output
    finally:
        os.umask(before)
    assert list(tmp_path.iterdir()) == [file]


def test_no_token_is_made_that_can_not_be_kept(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """A directory that is not there is found out before the gateway is asked; a refusal leaves the old file."""
    assert run("token", "create", "User:b", "--output", tmp_path / "none" / "file").exit_code == ExitCode.FAILED
    assert not gateway.asked
    file = tmp_path / "token"
    file.write_text("old")
    gateway.misbehave(
        "POST", gateway.refuse(403, "UNAUTHORIZED", operation="Alter", resource_type="cluster", resource="cluster")
    )
    refused = run("token", "create", "User:b", "--output", file)
    assert refused.exit_code == ExitCode.REFUSED
    assert "You may not Alter 'cluster'" in refused.stderr
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_redirected_token_that_others_can_read_is_said(gateway: FakeGateway, tmp_path: Path) -> None:
    """A shell's ``>`` makes files by the umask; the command can't mend that, so it says it."""
    for umask, said in ((0o022, True), (0o077, False)):
        gateway.will_answer("POST /v1/access/tokens", {**TOKEN, "token": SECRET}, 201)
        command = f"umask {umask:03o}; {sys.executable} -m tidelog token create User:b > token-{umask:o}"
        environment = {**os.environ, "TIDELOG_URL": gateway.url, "TIDELOG_CONFIG": os.devnull, "PYTHONSAFEPATH": "1"}
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert (tmp_path / f"token-{umask:o}").read_text() == SECRET + "\n"
        assert ("chmod 600" in done.stderr) is said


def test_tokens_are_listed_and_revoked(gateway: FakeGateway, run: Run) -> None:
    """Ids, never secrets."""
    gateway.will_answer("GET /v1/access/tokens", {"tokens": [TOKEN]})
    listed = run("token", "list", "--principal", "User:billing")
    assert "abcd1234" in listed.stdout
    assert "till [3]" in listed.stdout
    assert gateway.asked[-1].query == {"principal": "User:billing"}
    gateway.will_answer("GET /v1/access/tokens", {"tokens": [TOKEN]})
    assert json.loads(run("token", "list", "--json").stdout) == {"tokens": [TOKEN]}
    gateway.will_answer("DELETE /v1/access/tokens/abcd1234", status=204)
    assert run("token", "revoke", "abcd1234", "--yes").exit_code == 0
    gateway.misbehave("DELETE", gateway.refuse(404, "UNKNOWN_TOKEN"), gateway.refuse(404, "UNKNOWN_TOKEN"))
    assert run("token", "revoke", "abcd1234", "--yes").exit_code == ExitCode.REFUSED
    assert run("token", "revoke", "abcd1234", "--yes", "--if-exists", "--json").exit_code == 0


def test_spans(gateway: FakeGateway, run: Run) -> None:
    """``--overlap`` and ``--expires``; what is no span is wrong usage, and nothing is asked."""
    gateway.will_answer(":rotate", {**TOKEN, "token": SECRET})
    assert run("token", "rotate", "abcd1234", "--overlap", "1h", "--expires", "2030-01-01T00:00:00Z").exit_code == 0
    assert body(gateway) == {"overlap_ms": 3_600_000, "expires_at": 1_893_456_000_000}
    gateway.asked.clear()
    for wrong in (("--overlap", "1"), ("--overlap", "1w"), ("--expires", "soon")):
        assert run("token", "rotate", "abcd1234", *wrong).exit_code == ExitCode.USAGE
    assert not gateway.asked


# ACLs, roles, quotas


def test_acls_are_added(gateway: FakeGateway, run: Run) -> None:
    """Several operations at once, by prefix, denied; the cluster needs no name."""
    gateway.will_answer("POST /v1/access/acls", {"acls": [ACL]}, 201)
    added = run("acl", "add", "User:billing", "Read,write", "topic", "orders", "--prefix", "--deny")
    assert added.exit_code == 0, added.output
    assert [each["operation"] for each in body(gateway)["acls"]] == ["Read", "Write"]
    assert {(each["pattern"], each["permission"]) for each in body(gateway)["acls"]} == {("prefix", "deny")}
    assert "User:billing may Write topic those that begin with orders" in added.stderr
    gateway.will_answer("POST /v1/access/acls", {"acls": []})
    assert run("acl", "add", "Role:admins", "All", "cluster", "--json").exit_code == 0
    assert body(gateway)["acls"][0]["resource"] == "cluster"
    for wrong in (("User:b", "Fly", "topic", "t"), ("User:b", "Read", "topic"), ("User:b", "Read", "river", "t")):
        assert run("acl", "add", *wrong).exit_code == ExitCode.USAGE


def test_acls_are_listed_and_removed(gateway: FakeGateway, run: Run) -> None:
    """By what is named; removing without naming anything is refused before anything is asked."""
    gateway.will_answer("GET /v1/access/acls", {"acls": [ACL]})
    assert "orders…" in run("acl", "list", "--type", "topic", "--name", "orders").stdout
    assert gateway.asked[-1].query == {"resource_type": "topic", "resource": "orders"}
    gateway.will_answer("DELETE /v1/access/acls", {"acls": [ACL]})
    removed = run("acl", "remove", "--principal", "User:billing", "--yes", "--json")
    assert json.loads(removed.stdout) == {"acls": [ACL]}
    gateway.asked.clear()
    assert run("acl", "remove", "--yes").exit_code == ExitCode.USAGE
    assert not gateway.asked


def test_an_acl_test_says_it_by_its_exit_code(gateway: FakeGateway, run: Run) -> None:
    """0: allowed, and by which; 1: not."""
    gateway.will_answer("POST /v1/access:test", {"allowed": True, "reason": "allow", "acl": ACL})
    allowed = run("acl", "test", "User:billing", "Write", "topic", "orders", "--group", "Group:shop")
    assert (allowed.exit_code, body(gateway)["groups"]) == (0, ["Group:shop"])
    assert allowed.stdout.startswith("allowed: User:billing may Write")
    gateway.will_answer("POST /v1/access:test", {"allowed": False, "reason": "default", "acl": None})
    denied = run("acl", "test", "User:billing", "Write", "topic", "orders")
    assert (denied.exit_code, denied.stdout) == (ExitCode.FAILED, "denied: no ACL allows it\n")


def test_roles(gateway: FakeGateway, run: Run) -> None:
    """Put, listed, removed."""
    role = {"role": "admins", "members": ["User:ann", "Group:operators"]}
    gateway.will_answer("PUT /v1/access/roles/admins", role)
    assert "User:ann, Group:operators" in run("role", "put", "admins", "User:ann", "Group:operators").stderr
    gateway.will_answer("GET /v1/access/roles", {"roles": [role]})
    assert json.loads(run("role", "list", "--json").stdout) == {"roles": [role]}
    gateway.misbehave("DELETE", gateway.refuse(404, "UNKNOWN_ROLE"))
    assert run("role", "remove", "admins", "--yes", "--if-exists").exit_code == 0


def test_a_quota_changes_in_what_is_named(gateway: FakeGateway, run: Run) -> None:
    """The API replaces a quota; the command keeps what was not named."""
    stored = {"principal": "User:b", "produce_bytes_per_s": 5, "requests_per_s": 7}
    gateway.will_answer("GET /v1/access/quotas/User", stored)
    gateway.will_answer("PUT /v1/access/quotas/User", {"principal": "User:b", "produce_bytes_per_s": 9})
    said = run("quota", "set", "User:b", "--produce-bytes-per-s", "9", "--requests-per-s", "none")
    assert said.exit_code == 0, said.output
    assert (body(gateway)["produce_bytes_per_s"], body(gateway)["requests_per_s"]) == (9, None)
    gateway.will_answer("GET /v1/access/quotas", {"quotas": [stored]})
    assert "User:b" in run("quota", "list").stdout
    for wrong in ((), ("--connections", "many"), ("--connections", "-1")):
        assert run("quota", "set", "User:b", *wrong).exit_code == ExitCode.USAGE


# The caller itself, and the store's credentials


def test_who_am_i(gateway: FakeGateway, run: Run) -> None:
    """In words, and that there is no authentication where there is none."""
    caller = {"principal": "User:b", "groups": ["Group:shop"], "super_user": False, "authentication": "token",
              "token_id": "abcd1234", "expires_at": 0}  # fmt: skip
    gateway.will_answer("GET /v1/whoami", caller)
    said = run("whoami").stdout
    assert "User:b" in said
    assert "token abcd1234" in said
    gateway.will_answer(
        "GET /v1/whoami", {"principal": "User:anonymous", "super_user": False, "authentication": "none"}
    )
    said = run("whoami").stdout
    assert "without authentication" in said
    assert "ACLs" not in said


def test_store_credentials_are_exports_of_a_shell(gateway: FakeGateway, run: Run) -> None:
    """Quoted, so that ``eval`` runs nothing else."""
    vended = {"access_key_id": "AK", "secret_access_key": "a'b$(touch x)", "session_token": "s", "expires_at": 0,
              "endpoint_url": None, "region": "eu-1", "topics": [{"topic": "t", "table_uri": "s3://b/t"}]}  # fmt: skip
    gateway.will_answer("POST /v1/credentials", vended)
    given = run("credentials", "t", "--access", "append", "--duration", "1200")
    assert body(gateway) == {"topics": ["t"], "access": "append", "duration_s": 1200}
    done = subprocess.run(
        ["sh", "-c", f'{given.stdout}printf %s "$AWS_SECRET_ACCESS_KEY"'],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "a'b$(touch x)"
    assert "s3://b/t" in given.stderr


# The token of every command


def test_every_command_that_asks_a_gateway_takes_a_token_file() -> None:
    """Where there is ``--url`` there is ``--token-file``."""
    lacking = []

    def below(command: Any, path: str) -> None:
        for name, each in command.commands.items():
            if hasattr(each, "commands"):
                below(each, f"{path}{name} ")
                continue
            options = {option for parameter in each.params for option in parameter.opts}
            if "--url" in options and "--token-file" not in options:
                lacking.append(path + name)

    below(typer.main.get_command(app), "")
    assert not lacking


COMMANDS: Final[list[tuple[str, ...]]] = [
    ("topic", "list"), ("topic", "create", "u"), ("topic", "describe", "t"), ("topic", "alter", "t", "-p", "2"),
    ("topic", "delete-records", "t", "--before", "0:end", "--yes"), ("group", "list"), ("lag", "g"), ("cluster",),
    ("produce", "t"), ("produce", "t", "--format", "ndjson"), ("produce", "t", "--format", "objects"),
    ("consume", "t"), ("consume", "t", "--group", "g"), ("cat", "t", "0", "0"), ("bench", "produce", "t", "--records", "1"),
    ("bench", "consume", "t", "--records", "1"), ("topic", "delete", "t", "--yes"),
]  # fmt: skip
GIVEN: Final = b'{"value":"v"}\n'


@pytest.fixture
def guarded(gateway: FakeGateway) -> FakeGateway:
    """A gateway that takes one token, with a topic of one record."""
    record = Record("t", 0, 0, 1, None, b"v")
    gateway.create("t").records[0].append(record)
    gateway.tokens = {SECRET}
    return gateway


@pytest.mark.parametrize("arguments", COMMANDS)
def test_commands_are_refused_without_a_token(guarded: FakeGateway, run: Run, arguments: tuple[str, ...]) -> None:
    """Exit code 4, and how a token is given."""
    refused = run(*arguments, given=GIVEN)
    assert refused.exit_code == ExitCode.REFUSED
    assert "TIDELOG_TOKEN_FILE" in refused.stderr


@pytest.mark.parametrize("arguments", COMMANDS)
@pytest.mark.parametrize("source", ["option", "file", "text", "settings"])
def test_commands_send_the_token(
    guarded: FakeGateway, run: Run, tmp_path: Path, arguments: tuple[str, ...], source: str
) -> None:
    """By option, environment or settings file, with every request; and it is in no output."""
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    settings = tmp_path / "config.toml"
    settings.write_text(f'token_file = "{file}"\n')
    environment = {
        "option": {"TIDELOG_TOKEN": "tl_wrong_one"},
        "file": {"TIDELOG_TOKEN_FILE": str(file)},
        "text": {"TIDELOG_TOKEN": SECRET},
        "settings": {"TIDELOG_CONFIG": str(settings)},
    }[source]
    more = ("--token-file", file) if source == "option" else ()
    result = run(*arguments, *more, given=GIVEN, **environment)
    assert result.exit_code in {ExitCode.OK, ExitCode.REFUSED}, result.output
    assert "UNAUTHENTICATED" not in result.output
    assert SECRET not in result.output
    assert {asked.headers.get("authorization") for asked in guarded.asked} == {f"Bearer {SECRET}"}


def test_the_environment_wins_over_the_settings_file(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """As every setting."""
    wrong, settings = tmp_path / "wrong", tmp_path / "config.toml"
    wrong.write_text("tl_wrong_one\n")
    settings.write_text(f'token-file = "{wrong}"\n')
    gateway.tokens = {SECRET}
    assert run("topic", "list", TIDELOG_CONFIG=str(settings)).exit_code == ExitCode.REFUSED
    assert run("topic", "list", TIDELOG_CONFIG=str(settings), TIDELOG_TOKEN=SECRET).exit_code == 0


def test_a_token_is_refused_for_a_plain_address_elsewhere(run: Run) -> None:
    """Wrong usage, in a sentence, before anything is sent."""
    refused = run("topic", "list", "--url", "http://gateway.example:8080", TIDELOG_TOKEN=SECRET)
    assert refused.exit_code == ExitCode.USAGE
    assert "plain HTTP" in refused.stderr
    assert SECRET not in refused.output


# Shares


def test_a_share_is_rights_and_a_token(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """``share create`` allows its user to read, names and prefixes, and writes the profile: alone on standard output, or into a
    file of mode 0600 and then nowhere else."""
    file, flags = tmp_path / "partners.share", ("--topics", "orders,logs-*", "--endpoint", "https://t.example/")
    for more in ([], ["--output", file], ["--output", file, "--json"]):
        gateway.will_answer("POST /v1/access/acls", {"acls": [ACL, ACL]}, 201)
        gateway.will_answer(
            "POST /v1/access/tokens", {**TOKEN, "principal": "User:share-partners", "token": SECRET}, 201
        )
        made = run("share", "create", "partners", *flags, *more)
        assert made.exit_code == 0, made.output
        profile = file.read_text() if more else made.stdout
        assert json.loads(profile) == {
            "shareCredentialsVersion": 1,
            "endpoint": "https://t.example/delta-sharing",
            "bearerToken": SECRET,
            "expirationTime": "1970-01-02T00:00:00Z",
        }
        if more:
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert SECRET not in made.output
    wanted = [(acl["principal"], acl["operation"], acl["resource"], acl["pattern"]) for acl in body(gateway, 2)["acls"]]
    user = "User:share-partners"
    assert wanted == [(user, "Read", "logs-", "prefix"), (user, "Read", "orders", "literal")]
    assert body(gateway)["principal"] == user
    before = len(gateway.asked)
    for name in ("tidelog", "a b", "a/b", ""):
        assert run("share", "create", name, "--topics", "t").exit_code != 0
    assert len(gateway.asked) == before


def test_shares_are_listed_and_deleted(gateway: FakeGateway, run: Run) -> None:
    """From the rights and tokens of their users; deleting takes both, and says if there was nothing."""
    acls = [
        {**ACL, "principal": "User:share-a", "operation": "Read"},
        {**ACL, "principal": "User:share-a", "operation": "Read", "resource": "x", "pattern": "literal"},
        {**ACL, "operation": "Read"},
    ]
    gateway.will_answer("GET /v1/access/acls", {"acls": acls})
    gateway.will_answer("GET /v1/access/tokens", {"tokens": [TOKEN, {**TOKEN, "principal": "User:share-b"}]})
    found = json.loads(run("share", "list", "--json").stdout)["shares"]
    assert [(one["name"], one["topics"], one["expires_at"]) for one in found] == [
        ("a", ["orders*", "x"], None),
        ("b", [], 86_400_000),
    ]
    gateway.will_answer("GET /v1/access/tokens", {"tokens": [{**TOKEN, "principal": "User:share-a"}]})
    gateway.will_answer("DELETE /v1/access/tokens/abcd1234", status=204)
    gateway.will_answer("DELETE /v1/access/acls", {"acls": acls[:2]})
    assert run("share", "delete", "a", "--yes").exit_code == 0
    assert gateway.asked[-1].query == {"principal": "User:share-a"}
    for flags, is_well in (((), False), (("--if-exists",), True)):
        gateway.will_answer("GET /v1/access/tokens", {"tokens": []})
        gateway.will_answer("DELETE /v1/access/acls", {"acls": []})
        assert (run("share", "delete", "a", "--yes", *flags).exit_code == 0) is is_well
