"""``infra/terraform`` is valid, plans without credentials or network, and what it plans is closed, encrypted and bounded."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from log_format import layout

ROOT = Path(__file__).resolve().parents[2]
TERRAFORM = ROOT / "infra" / "terraform"
IMAGES = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
MINIMAL = {
    "bucket": "tidelog-test",
    "gateway_image": f"{IMAGES}/tidelog-gateway:0.1.0",
    "spark_image": f"{IMAGES}/tidelog-spark:0.1.0",
    "repository_arns": [
        f"arn:aws:ecr:eu-central-1:123456789012:repository/tidelog-{name}" for name in ("gateway", "spark")
    ],
    "client_cidrs": ["198.51.100.7/32"],
    "certificate_arn": "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000",
    "host_name": "log.example.com",
    "cluster_key_secret_arn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-key-AbCdEf",
    "bootstrap_token_secret_arn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-token-AbCdEf",
}
PRODUCTION = {
    **MINIMAL,
    "collector_image": f"{IMAGES}/collector:0.43.3",
    "emr_image": f"{IMAGES}/tidelog-emr:0.1.0",
    "fast_zone_id": "euc1-az2",
    "fast_host_name": "fast.log.example.com",
    "kms_key_arn": "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000",
    "log_bucket": "tidelog-test-logs",
    "scripts_bucket": "tidelog-test-scripts",
    "emails": ["on-call@example.com"],
    "jobs": {"delays": {"script": "delays.py", "schedule": "rate(1 hour)"}},
    "jobs_append": True,
}
EXAMPLES: dict[str, dict[str, Any]] = {"minimal": MINIMAL, "production": PRODUCTION}
ENDPOINTS_OF = {
    "ecr": {"ecr.api", "ecr.dkr"},
    "logs": {"logs"},
    "s3": {"s3"},
    "s3express": {"s3express"},
    "secretsmanager": {"secretsmanager"},
}
"""Endpoints by which a network without a way to the internet reaches each service that a role of its programs may use."""
ASKED_FROM_OUTSIDE = {"iam", "kms", "sts"}
"""Services that AWS asks on the programs' behalf: S3 asks KMS, ECS and EMR take the roles. Nothing inside the network does."""
ONLY_BY_STAR = {"ecr:GetAuthorizationToken"}
"""Actions for which AWS takes no resource but ``*``."""

Changes = list[dict[str, Any]]


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request: pytest.FixtureRequest, workspace: Callable[[str], Any]) -> tuple[str, Any]:
    """Its name, and its folder, initialised."""
    used = workspace(f"examples/{request.param}")
    used.initialise()
    return request.param, used


@pytest.fixture(scope="module")
def plan(example: tuple[str, Any]) -> Changes:
    """The plan of one example."""
    name, used = example
    changes: Changes = used.planned(EXAMPLES[name])
    return changes


def of_type(plan: Changes, kind: str) -> Iterator[dict[str, Any]]:
    return (each["change"]["after"] for each in plan if each["type"] == kind)


def test_the_form_is_terraforms_own(workspace: Callable[[str], Any]) -> None:
    """``terraform fmt`` would change nothing."""
    assert workspace(".").run("fmt", "-recursive", "-check", "-list=true", ".") == ""


def test_a_variable_of_several_modules_is_declared_once() -> None:
    """No two declarations are alike, but those of ``shared``, to which modules have links."""
    files = [path for path in (TERRAFORM / "modules").glob("*/*.tf") if not path.is_symlink()]
    files += (TERRAFORM / "shared").glob("*.tf")
    declared = [each for path in files for each in re.findall(r"(?ms)^variable .*?^\}", path.read_text())]
    rules = [re.sub(r"(description|error_message) *= .*", "", each) for each in declared]
    assert [each for each, count in Counter(rules).items() if count > 1] == []
    links = [path for path in (TERRAFORM / "modules").glob("*/*.tf") if path.is_symlink()]
    assert {path.resolve().parent for path in links} == {TERRAFORM / "shared"}
    assert {path.resolve().name for path in links} == {path.name for path in (TERRAFORM / "shared").iterdir()}


@pytest.mark.parametrize("module", ["storage", "access", "task", "gateway", "maintenance", "pipeline", "observability"])
def test_modules_pass_their_own_tests(module: str, workspace: Callable[[str], Any]) -> None:
    """``terraform test``: what each module makes is as it should be, and wrong variables are refused."""
    used = workspace(f"modules/{module}")
    used.initialise()
    assert re.search(r"Success! ([2-9]|[1-9][0-9]+) passed, 0 failed", used.run("test"))


def test_the_bucket_is_encrypted_and_closed(plan: Changes, request: pytest.FixtureRequest) -> None:
    """Encrypted by default, no public access in any of four ways, TLS only, not deleted with its records."""
    (encryption,) = of_type(plan, "aws_s3_bucket_server_side_encryption_configuration")
    algorithm = "aws:kms" if "production" in request.node.name else "AES256"
    assert encryption["rule"][0]["apply_server_side_encryption_by_default"][0]["sse_algorithm"] == algorithm
    (block,) = of_type(plan, "aws_s3_bucket_public_access_block")
    assert {name for name, value in block.items() if value is True} >= {
        "block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets",
    }  # fmt: skip
    (policy,) = of_type(plan, "aws_s3_bucket_policy")
    statements = {each["Sid"]: each for each in json.loads(policy["policy"])["Statement"]}
    assert statements["TlsOnly"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert {each["Effect"] for each in statements.values()} == {"Deny"}
    (bucket,) = of_type(plan, "aws_s3_bucket")
    assert bucket["force_destroy"] is False


def test_nothing_but_unfinished_uploads_expires(plan: Changes) -> None:
    """The bucket deletes nothing by itself: a rule that expired objects by age would delete what the log names."""
    (rules,) = of_type(plan, "aws_s3_bucket_lifecycle_configuration")
    (rule,) = rules["rule"]
    assert not rule["expiration"]
    assert not rule.get("transition")
    assert rule["abort_incomplete_multipart_upload"] == [{"days_after_initiation": 1}]


def test_commits_are_never_replaced(plan: Changes) -> None:
    """No role, whatever it may write, puts a commit without saying that there must be none; what is replaced by design is no
    commit. (That S3 enforces it is AWS's word: MinIO and moto don't know the condition.)"""
    (policy,) = of_type(plan, "aws_s3_bucket_policy")
    (statement,) = [
        each for each in json.loads(policy["policy"])["Statement"] if each["Sid"] == "CommitsAreNeverReplaced"
    ]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:PutObject")
    assert statement["Condition"] == {"Null": {"s3:if-none-match": "true"}}
    roots = [layout.topic_root("orders"), layout.TRANSACTIONS_ROOT, layout.CONSUMER_OFFSETS_ROOT]
    commits = [layout.table_commit_key(root, 7) for root in roots]
    others = [layout.CLUSTER_KEY, f"{layout.GATEWAYS}a.json", f"{roots[0]}segments/a.parquet"]
    for root in roots:
        others += [
            layout.table_checkpoint_key(root, 7), layout.table_last_checkpoint_key(root), layout.table_cleaned_key(root, 7)
        ]  # fmt: skip
    denied = [
        key for key in commits + others
        if any(fnmatch.fnmatchcase(f"arn:aws:s3:::tidelog-test/log/{key}", each) for each in statement["Resource"])
    ]  # fmt: skip
    assert denied == commits


def test_logs_are_by_choice(plan: Changes, request: pytest.FixtureRequest) -> None:
    """Access logs of bucket and balancer, and flow logs of the network: where a bucket for them is named."""
    is_asked_for = "production" in request.node.name
    kinds = [each["type"] for each in plan]
    balancers = {bool(each["access_logs"]) for each in of_type(plan, "aws_lb")}
    assert balancers == {is_asked_for}
    assert ("aws_flow_log" in kinds, "aws_s3_bucket_logging" in kinds) == (is_asked_for,) * 2


def documents(plan: Changes) -> Iterator[dict[str, Any]]:
    """Every statement of every role's policy that the plan knows already."""
    for policy in of_type(plan, "aws_iam_role_policy"):
        if policy.get("policy"):
            yield from json.loads(policy["policy"])["Statement"]


def test_no_role_may_do_everything_or_anywhere(plan: Changes) -> None:
    """No action has a wildcard; no resource is a wildcard, but for the one action that can't be asked for otherwise."""
    statements = list(documents(plan))
    assert len(statements) >= 8
    for statement in statements:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        assert not [action for action in actions if "*" in action]
        assert set(actions) <= ONLY_BY_STAR or not [each for each in resources if each in {"*", "arn:aws:s3:::*"}]
        assert all(re.fullmatch(r"arn:aws:s3:::[a-z0-9-]+(/.+)?", each) for each in resources if ":s3:" in each)


@pytest.mark.parametrize("path", sorted(TERRAFORM.rglob("*.tf")), ids=lambda path: str(path.relative_to(TERRAFORM)))
def test_policies_that_are_made_while_applying_have_no_wildcard_action(path: Path) -> None:
    """The same for policies whose text is known only while applying: in the source, only the bucket's denial says s3:*."""
    text = path.read_text()
    stars = re.findall(r'Action\s*=\s*(?:\[[^\]]*)?"([a-z0-9-]+:[^"]*\*[^"]*)"', text)
    assert stars == (["s3:*", "s3:*"] if path.match("storage/main.tf") else [])


def test_clients_come_from_where_somebody_said(plan: Changes) -> None:
    """No rule lets the whole internet in, and the load balancer is internal."""
    incoming = [each["cidr_ipv4"] for each in of_type(plan, "aws_vpc_security_group_ingress_rule") if each["cidr_ipv4"]]
    assert incoming
    assert "0.0.0.0/0" not in incoming
    assert {each["internal"] for each in of_type(plan, "aws_lb")} == {True}


def test_an_installation_asks_for_tokens(example: tuple[str, Any]) -> None:
    """By default every gateway of an example needs its cluster key: without one nothing is planned, until auth is off by name.

    (What a task's container gets of them is known only while applying: the module's own tests show it.)
    """
    name, used = example
    without = {key: value for key, value in EXAMPLES[name].items() if not key.endswith("_secret_arn")}
    with pytest.raises(AssertionError, match=r"is\s+needed with auth on"):
        used.plan(without)
    assert re.search(r"Plan: [1-9]\d+ to add", used.plan({**without, "auth": "off"}))


def test_no_byte_passes_a_nat(plan: Changes) -> None:
    """The bucket is reached by a gateway endpoint, and there is no NAT to pay for."""
    kinds = {each["type"] for each in plan}
    assert not kinds & {"aws_nat_gateway", "aws_eip"}
    assert "Gateway" in [each["vpc_endpoint_type"] for each in of_type(plan, "aws_vpc_endpoint")]


def services_of_programs() -> set[str]:
    """AWS's services that programs inside the network use: those of the actions that they, or what starts them, may do."""
    modules = TERRAFORM / "modules"
    places = [path for name in ("task", "gateway", "maintenance", "pipeline") for path in (modules / name).glob("*.tf")]
    places += [modules / "access/main.tf", *(modules / "access/policies").iterdir()]
    granted = [line for path in places for line in path.read_text().splitlines() if "Action" in line]
    found = {service for line in granted for service in re.findall(r'"([a-z0-9-]+):[A-Z][A-Za-z]+"', line)}
    return found - ASKED_FROM_OUTSIDE


def test_a_private_network_reaches_what_its_programs_use(plan: Changes, request: pytest.FixtureRequest) -> None:
    """Without a way to the internet there is an endpoint for each service: a task needs its image and secrets to start."""
    is_private = "production" in request.node.name
    assert any(of_type(plan, "aws_internet_gateway")) is not is_private
    services = services_of_programs()
    assert services == set(ENDPOINTS_OF), "name the endpoints of a service that roles may use"
    reached = {each["service_name"].split(".", 3)[3] for each in of_type(plan, "aws_vpc_endpoint")}
    assert reached == (set().union(*ENDPOINTS_OF.values()) if is_private else {"s3"})


def test_what_is_made_by_default_and_what_by_choice(plan: Changes, request: pytest.FixtureRequest) -> None:
    """The least is one bucket and maintenance in a task; EMR, a directory bucket and the alarm on lag come by asking for them."""
    is_asked_for = "production" in request.node.name
    alarms = {each["alarm_name"] for each in of_type(plan, "aws_cloudwatch_metric_alarm")}
    found = (
        "tidelog-maintenance" in {each["name"] for each in of_type(plan, "aws_emrserverless_application")},
        [each["bucket"] for each in of_type(plan, "aws_s3_directory_bucket")] == ["tidelog-test--euc1-az2--x-s3"],
        "tidelog-consumer-lag" in alarms,
        "tidelog-maintenance" not in {each["name"] for each in of_type(plan, "aws_ecs_service")},
    )
    assert found == (is_asked_for,) * 4


def test_gateways_stand_in_several_zones(plan: Changes) -> None:
    """Subnets in as many zones as there are, none shared."""
    zones = [each["availability_zone"] for each in of_type(plan, "aws_subnet")]
    assert len(zones) == len(set(zones)) >= 2


def test_no_secret_is_in_the_plan(plan: Changes) -> None:
    """No value looks like a key, and nothing is made that has one: state is no place for secrets."""
    assert not {each["type"] for each in plan} & {
        "aws_iam_access_key",
        "aws_secretsmanager_secret_version",
        "tls_private_key",
    }
    assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY|AWS_SECRET_ACCESS_KEY", json.dumps(plan))


def variables() -> Iterator[tuple[str, str]]:
    for path in sorted(TERRAFORM.rglob("*.tf")):
        for block in re.findall(r'(?ms)^variable "\w+" \{.*?^\}', path.read_text()):
            yield str(path.relative_to(TERRAFORM)), block


def test_every_variable_says_what_it_is() -> None:
    """Each has a description and a type; a module's, but for yes, no and tags, a validation; each output a description."""
    found = list(variables())
    assert len(found) > 60
    assert [each for each in found if "description = " not in each[1] or "type " not in each[1]] == []
    unchecked = [
        (path, re.findall(r'variable "(\w+)"', block)[0]) for path, block in found
        if path.startswith("modules/") and "validation {" not in block and not re.search(r"type +  *= (bool|map)", block)
    ]  # fmt: skip
    assert unchecked == [], "an example's variables are checked by the modules that they are passed to"
    outputs = [
        (str(path), block)
        for path in sorted(TERRAFORM.rglob("*.tf"))
        for block in re.findall(r'(?ms)^output "\w+" \{.*?^\}', path.read_text())
    ]
    assert [each for each in outputs if "description = " not in each[1]] == []


def test_every_alarm_of_cloudwatch_is_explained() -> None:
    """docs/deploy.md has each alarm that the module makes, and no other."""
    text = (TERRAFORM / "modules/observability/main.tf").read_text()
    block = text.split("  alarms = {\n")[1].split("\n  }\n}\n")[0]
    made = set(re.findall(r"^    ([a-z-]+) = \{", block, re.MULTILINE)) | {"gateway-down", "consumer-lag", "daily"}
    table = (ROOT / "docs/deploy.md").read_text().split("## Alarms in CloudWatch")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == made


def told_variables(number: int) -> dict[str, Any]:
    """The values of the page's block of that number of Terraform's variables, as they stand there."""
    section = (ROOT / "docs/deploy.md").read_text().split("\n## AWS\n")[1].split("\n## ")[0]
    block = re.findall(r"(?ms)^ *```hcl$(.*?)^ *```$", section)[number]
    return {name: json.loads(value) for name, value in re.findall(r"(?m)^ +(\w+) += (.+?)(?: +#.*)?$", block)}


def filled(told: Any) -> Any:
    """A value in which a reader has replaced what stands for their own."""
    if isinstance(told, list):
        return [filled(each) for each in told]
    if not isinstance(told, str):
        return told
    certificate = "certificate/00000000-0000-0000-0000-000000000000"
    own = told.replace("certificate/…", certificate).replace("…", "AbCdEf")
    return own.replace("<account>", "123456789012").replace("name>", "tidelog-test").replace("<", "")


def test_the_page_names_every_variable_that_is_needed(example: tuple[str, Any]) -> None:
    """docs/deploy.md's variables are the example's, and all that it needs; with the page's placeholders they are refused."""
    name, used = example
    text = (TERRAFORM / f"examples/{name}/variables.tf").read_text()
    blocks = re.findall(r'(?ms)^variable "(\w+)" \{(.*?)^\}', text)
    needed = {variable for variable, block in blocks if "default " not in block}
    needed |= {variable for variable, block in blocks if "Needed with auth on" in block}
    told = told_variables(0)
    if name == "production":
        told = {variable: value for variable, value in told.items() if variable != "is_internal"} | told_variables(1)
    assert needed <= set(told) <= {variable for variable, _ in blocks}
    whole = {variable: filled(value) for variable, value in told.items()}
    assert re.search(r"Plan: [1-9]\d+ to add", used.plan(whole))
    with pytest.raises(AssertionError, match="Invalid value for variable"):
        used.plan(told)
