#!/usr/bin/env bash
# Builds what tests and the demo render and check the chart with: helm, and with
# Helm 3 also helm-unittest and kubeconform, from the modules that go.mod beside
# this file pins. The first build takes some minutes.
#
# Prints the directory with the programs, and nothing else, on standard output.
#
#   ARCHELON_HELM   hack/helm4/go.mod builds Helm 4 instead
#   ARCHELON_CACHE  build below this directory instead of the user's cache
#
# test/helm looks in the same place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cd "$(dirname "${ARCHELON_HELM:-hack/chart/go.mod}")"
part=$(basename "$PWD")
. ../programs.sh

# name=module=package below it
case "$part" in
chart)
	programs=(
		helm=helm.sh/helm/v3=/cmd/helm
		helm-unittest=github.com/helm-unittest/helm-unittest=/cmd/helm-unittest
		kubeconform=github.com/yannh/kubeconform=/cmd/kubeconform
	)
	;;
helm4) programs=(helm=helm.sh/helm/v4=/cmd/helm) ;;
*)
	say "ARCHELON_HELM ($ARCHELON_HELM) has to be hack/helm4/go.mod or empty"
	exit 1
	;;
esac

modules=()
for program in "${programs[@]}"; do
	IFS== read -r _ module _ <<<"$program"
	modules+=("$module")
done

build_all() {
	local program name module below
	for program in "${programs[@]}"; do
		IFS== read -r name module below <<<"$program"
		build "$1/$name" "$module$below" "-s -w"
	done
}

# A new version of any of them builds all anew.
cached "$(go list -m -f '{{.Version}}' "${modules[@]}" | paste -sd- -)" "${programs[@]%%=*}"
