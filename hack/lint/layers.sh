#!/usr/bin/env bash
# Shows that .golangci.yml holds the layers: in a throw-away module with the
# names of this one, each import below that points down passes and each that
# does not is caught. Usage: layers.sh GOLANGCI-LINT...
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=github.com/archelon-io/archelon

allowed=(
	"internal/scheme api/v1alpha1"
	"api/infrastructure/v1beta2 identity/api/v1beta2"
	"identity identity/api/v1beta2"
	"internal/scheme identity/api/v1beta2"
	"internal/identity identity"
	"internal/setup identity"
	"internal/controller internal/shard"
	"internal/rolekeeper internal/controller"
	"internal/rancher internal/outcome"
	"internal/import internal/rancher"
	"internal/import internal/workload"
	"internal/import internal/agent"
	"internal/agent internal/workload"
	"internal/outcome providers/capi/problem"
	"internal/controller providers/capi/drain"
	"internal/workload providers/capi/kubeconfig"
	"internal/edge providers/capi/connection"
	"internal/hostclaim/remote providers/capi/kubeconfig"
	"internal/setup providers/capi/kubeconfig"
	"providers/capi/kubeconfig providers/capi/problem"
	"internal/fleet providers/capi"
	"internal/members internal/condition"
	"internal/import internal/docs"
	"internal/agentmanifest internal/agent"
	"internal/outage internal/edge"
	"internal/fleet/agenthealth internal/agent"
	"internal/hostclaim/remote internal/workload"
	"internal/hostclaim/remote internal/hostclaim"
	"internal/uninstall internal/hold"
	"internal/check charts"
	"internal/check internal/instance"
	"internal/import/v1 internal/import"
	"internal/import/v3 internal/import"
	"internal/options feature"
	"internal/setup internal/options"
	"internal/setup internal/import/v3"
	". internal/setup"
	". internal/version"
	"test/stage internal/import"
	"test/helm test/node"
	"test/capi test/env"
)
forbidden=(
	"internal/import internal/identity"
	"internal/identity internal/import"
	"identity api/infrastructure/v1beta2"
	"identity internal/outcome"
	"api/v1alpha1 identity/api/v1beta2"
	"internal/outcome identity"
	"api/v1alpha1 internal/outcome"
	"internal/outcome feature"
	"internal/version internal/outcome"
	"internal/scheme internal/rancher"
	"internal/controller internal/rancher"
	"internal/rancher internal/workload"
	"internal/workload internal/agent"
	"internal/workload providers/capi"
	"internal/condition providers/capi/problem"
	"internal/agent internal/rancher"
	"internal/hold internal/instance"
	"internal/rancher feature"
	"internal/workload internal/import"
	"internal/import feature"
	"internal/import internal/import/v1"
	"internal/import/v1 internal/import/v3"
	"internal/import/v3 internal/setup"
	"internal/hostclaim internal/import"
	"internal/hostclaim/remote internal/hostclaim/baremetal"
	"internal/hostclaim/remote providers/capi"
	"internal/fleet internal/import"
	"internal/members internal/import"
	"internal/agentmanifest internal/import"
	"internal/outage internal/import"
	"providers/capi internal/fleet"
	"providers/capi api/v1alpha1"
	"providers/capi/kubeconfig internal/outcome"
	"internal/rolekeeper internal/import"
	"internal/check internal/import"
	"internal/check internal/setup"
	"charts internal/outcome"
	"internal/options internal/setup"
	"internal/setup test/env"
	"internal/setup test/node"
	"test/node internal/import"
	"test/helm internal/import"
	"test/standin/agent internal/import"
	"test/capi internal/import"
	"test/kind internal/import"
	". internal/import"
)

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# check says whether the linter objects to package $2 importing package $3; exit
# code 1 of the linter is an objection, anything else but 0 a failure.
check() {
	local want=$1 from=$2 to=$3 name=p file=file.go code=0 out
	rm -rf "${tmp:?}"/*
	cp "$root/.golangci.yml" "$tmp"
	printf 'module %s\n\ngo 1.26\n' "$module" >"$tmp/go.mod"
	[[ $from == . ]] && name=main file=main.go
	mkdir -p "$tmp/$from" "$tmp/$to"
	printf 'package p\n' >"$tmp/$to/p.go"
	printf 'package %s\n\nimport _ "%s/%s"\n' "$name" "$module" "$to" >"$tmp/$from/$file"
	out=$(cd "$tmp" && "${lint[@]}" run --allow-parallel-runners --enable-only=depguard "./$from" 2>&1) || code=$?
	if ((code > 1)); then
		echo "layers: the linter failed on $from importing $to:" "$out" >&2
		exit 1
	fi
	if ((code != want)); then
		echo "layers: $from importing $to should have been $( ((want)) && echo caught || echo allowed)" "$out" >&2
		exit 1
	fi
}

lint=("$@")
for pair in "${allowed[@]}"; do check 0 $pair; done
for pair in "${forbidden[@]}"; do check 1 $pair; done
echo "layers: ${#allowed[@]} imports allowed, ${#forbidden[@]} caught"
