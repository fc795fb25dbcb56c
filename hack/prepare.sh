#!/usr/bin/env bash
# Builds all that `make test` runs, one part after the other, and says how long
# each took. It compiles alone, before any test: an API server that waits for a
# compiler answers late, and a test that waits for the API server fails.
# Where nothing has changed it takes some seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

parts=(
	"etcd, kube-apiserver, kube-controller-manager and kubectl=hack/controlplane/build.sh"
	"helm, helm-unittest and kubeconform=hack/chart/build.sh"
	"the JSON schemas of Kubernetes for kubeconform=go run ./hack/schemas"
	"the modules of the CRDs of Metal3=go -C hack/metal3 mod download github.com/metal3-io/baremetal-operator"
	"the manager, the demo and the tests=compile_all"
)

# `go list -export` compiles what `go test` compiles, and leaves out linking, which
# is not kept. It is not told what to print, so it prints nothing but errors.
compile_all() { for module in . identity providers/capi; do go -C "$module" list -export -test -f '' ./... || return; done; }

say() { echo "prepare: $*"; }

for i in "${!parts[@]}"; do
	IFS== read -r what command <<<"${parts[i]}"
	number="$((i + 1)) of ${#parts[@]}"
	say "$number: $what"
	began=$SECONDS
	# Signs of life of a part go to standard error; what it prints otherwise is a path.
	$command >/dev/null
	say "$number took $((SECONDS - began)) s"
done
say "all took $SECONDS s"
