#!/usr/bin/env bash
# Builds the programs of Metal3 and Cluster API that tests of HostClaims run for
# real, from the modules that go.mod beside this file pins: the
# baremetal-operator, and the clusterctl of the Cluster API that it is built
# with. The first build takes several minutes.
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
programs=(
	baremetal-operator=$operator
	clusterctl=sigs.k8s.io/cluster-api/cmd/clusterctl
)

build_all() {
	local program
	for program in "${programs[@]}"; do
		build "$1/${program%%=*}" "${program#*=}" "-s -w"
	done
}

cached "$(go list -m -f '{{.Version}}' "$operator")" "${programs[@]%%=*}"
