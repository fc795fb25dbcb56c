#!/usr/bin/env bash
# Builds the control plane that tests and the demo run against: etcd,
# kube-apiserver, kube-controller-manager and kubectl, from the modules that
# go.mod beside this file pins. The first build takes several minutes; after it
# there is nothing to do until the version changes.
#
# Prints the directory with the programs, and nothing else, on standard output.
#
#   KUBEBUILDER_ASSETS  use the programs in this directory, build nothing
#   ARCHELON_CACHE      build below this directory instead of the user's cache
#
# test/env looks in the same places.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
part=controlplane
. ../programs.sh

# name=package
programs=(
	etcd=go.etcd.io/etcd/server/v3
	kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver
	kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager
	kubectl=k8s.io/kubernetes/cmd/kubectl
)

if [[ -n "${KUBEBUILDER_ASSETS:-}" ]]; then
	lacking=$(missing "$KUBEBUILDER_ASSETS" "${programs[@]%%=*}" | paste -sd' ' -)
	if [[ -n "$lacking" ]]; then
		say "KUBEBUILDER_ASSETS ($KUBEBUILDER_ASSETS) lacks: $lacking"
		say "unset it to have all programs built, or add what is lacking"
		exit 1
	fi
	echo "$KUBEBUILDER_ASSETS"
	exit 0
fi

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)

# Clients parse the version that the API server reports; without these flags it
# reports none.
IFS=. read -r major minor _ <<<"${version#v}"
pkg=k8s.io/component-base/version
ldflags="-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=$major -X $pkg.gitMinor=$minor"

build_all() {
	local program
	for program in "${programs[@]}"; do
		build "$1/${program%%=*}" "${program#*=}" "$ldflags"
	done
}

cached "$version" "${programs[@]%%=*}"
