#!/usr/bin/env bash
# Writes what controller-gen makes of the types here: the deep copies in v1beta2, and the CRD in crd, which is for installations without CAPOCI.
# With --verify it writes nothing, and fails if something is stale.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
controller_gen=(go tool -modfile=../../hack/tools/go.mod controller-gen)
crd=infrastructure.cluster.x-k8s.io_ociclusteridentities.yaml

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"${controller_gen[@]}" object paths=./v1beta2 output:object:dir="$tmp"
# The kinds of clusters are views of CAPOCI's own. Nobody needs their CRDs.
"${controller_gen[@]}" crd paths=./... output:crd:dir="$tmp"

for file in "zz_generated.deepcopy.go v1beta2" "$crd crd"; do
	read -r name directory <<<"$file"
	if [[ ${1:-} == --verify ]]; then
		diff -u "$directory/$name" "$tmp/$name" || { echo "api/infrastructure/$directory/$name is stale: run api/infrastructure/generate.sh"; exit 1; }
	else
		cp "$tmp/$name" "$directory/$name"
	fi
done
