#!/usr/bin/env bash
# Builds the controllers of Cluster API that tests run for real, from the modules
# that go.mod beside this file pins: core, kubeadm bootstrap, kubeadm control
# plane, and the development infrastructure provider, whose machines can be in
# memory. With each comes its manifest, NAME.yaml, as `clusterctl` would get it:
# only there do the CRDs have the labels of the contract and the conversion
# webhooks. The first build takes several minutes.
#
# Prints the directory with all that, and nothing else, on standard output.
#
#   ARCHELON_CACHE  build below this directory instead of the user's cache
#
# test/capi looks in the same place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
part=capi
. ../programs.sh

# name=module=package below it. Two of them would be called kubeadm.
core=sigs.k8s.io/cluster-api
managers=(
	core=$core=
	bootstrap=$core=/bootstrap/kubeadm
	controlplane=$core=/controlplane/kubeadm
	infrastructure=$core/test=/infrastructure/docker
)

files=()
for manager in "${managers[@]}"; do files+=("${manager%%=*}" "${manager%%=*}.yaml"); done

build_all() {
	local manager name module below kubectl
	kubectl=$(../controlplane/build.sh)/kubectl
	for manager in "${managers[@]}"; do
		IFS== read -r name module below <<<"$manager"
		build "$1/$name" "$module$below" "-s -w"
		"$kubectl" kustomize "$(go list -m -f '{{.Dir}}' "$module")$below/config/default" >"$1/$name.yaml"
	done
}

cached "$(go list -m -f '{{.Version}}' "$core")" "${files[@]}"
