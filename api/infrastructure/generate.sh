#!/usr/bin/env bash
# Writes what controller-gen makes of the types of CAPOCI's API group: the deep copies of clusters in v1beta2, these of identities in the module
# identity, and the CRD of identities in crd, which is for installations without CAPOCI. With --verify it writes nothing, and fails if something
# is stale.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
crd=infrastructure.cluster.x-k8s.io_ociclusteridentities.yaml

# controller_gen runs in the directory of the module whose types it reads.
controller_gen() { (cd "$1" && go tool -modfile="$OLDPWD/hack/tools/go.mod" controller-gen "${@:2}"); }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# The kinds of clusters are views of CAPOCI's own, and have no CRDs.
controller_gen . object paths=./api/infrastructure/v1beta2 output:object:dir="$tmp/clusters"
controller_gen identity object paths=./api/v1beta2 output:object:dir="$tmp/identities"
controller_gen identity crd paths=./api/... output:crd:dir="$tmp/crd"

for file in \
	"clusters/zz_generated.deepcopy.go api/infrastructure/v1beta2" \
	"identities/zz_generated.deepcopy.go identity/api/v1beta2" \
	"crd/$crd api/infrastructure/crd"; do
	read -r from directory <<<"$file"
	to=$directory/$(basename "$from")
	if [[ ${1:-} == --verify ]]; then
		diff -u "$to" "$tmp/$from" || { echo "$to is stale: run api/infrastructure/generate.sh"; exit 1; }
	else
		cp "$tmp/$from" "$to"
	fi
done
