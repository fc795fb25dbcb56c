#!/usr/bin/env bash
# Builds the programs of Metal3 and Cluster API that tests of HostClaims run for
# real, from the modules that go.mod beside this file pins: the
# baremetal-operator, the Metal3 provider of Cluster API, and the clusterctl of
# the Cluster API that they are built with. With the provider comes provider.yaml,
# what it needs in a management cluster. The first build takes several minutes.
#
# Prints the directory with the programs, and nothing else, on standard output.
#
#   ARCHELON_CACHE  build below this directory instead of the user's cache
#
# test/metal3 looks in the same place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
part=metal3
. ../programs.sh

# name=package
operator=github.com/metal3-io/baremetal-operator
provider=github.com/metal3-io/cluster-api-provider-metal3
ipam=github.com/metal3-io/ip-address-manager
programs=(
	baremetal-operator=$operator
	provider=$provider
	clusterctl=sigs.k8s.io/cluster-api/cmd/clusterctl
)

build_all() {
	local program kubectl
	for program in "${programs[@]}"; do
		build "$1/${program%%=*}" "${program#*=}" "-s -w"
	done
	kubectl=$(../controlplane/build.sh)/kubectl
	{
		"$kubectl" kustomize "$(go list -m -f '{{.Dir}}' "$provider")/config/default"
		# It watches claims of addresses, whether there are any or not.
		for crd in "$(go list -m -f '{{.Dir}}' "$ipam")"/config/crd/bases/*.yaml; do echo ---; cat "$crd"; done
	} >"$1/provider.yaml"
}

cached "$(go list -m -f '{{.Version}}' "$operator")" "${programs[@]%%=*}" provider.yaml
