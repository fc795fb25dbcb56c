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

say() { echo "controlplane: $*" >&2; }

# name=package
programs=(
	etcd=go.etcd.io/etcd/server/v3
	kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver
	kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager
	kubectl=k8s.io/kubernetes/cmd/kubectl
)

# missing prints which of the programs are not in directory $1.
missing() {
	local program
	for program in "${programs[@]}"; do
		[[ -x "$1/${program%%=*}" ]] || echo "${program%%=*}"
	done
}

if [[ -n "${KUBEBUILDER_ASSETS:-}" ]]; then
	lacking=$(missing "$KUBEBUILDER_ASSETS" | paste -sd' ' -)
	if [[ -n "$lacking" ]]; then
		say "KUBEBUILDER_ASSETS ($KUBEBUILDER_ASSETS) lacks: $lacking"
		say "unset it to have all programs built, or add what is lacking"
		exit 1
	fi
	echo "$KUBEBUILDER_ASSETS"
	exit 0
fi

# As Go's os.UserCacheDir has it, which test/env asks.
user_cache() {
	if [[ "$(go env GOOS)" == darwin ]]; then
		echo "$HOME/Library/Caches"
	else
		echo "${XDG_CACHE_HOME:-$HOME/.cache}"
	fi
}

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
parent=${ARCHELON_CACHE:-$(user_cache)/archelon}/controlplane
target=$parent/$version-$(go env GOOS)-$(go env GOARCH)

done_already() { [[ -z "$(missing "$target")" ]]; }

if done_already; then
	echo "$target"
	exit 0
fi

mkdir -p "$parent"
tmp=$target.tmp.$$
ticker=
cleanup() {
	[[ -z "$ticker" ]] || kill "$ticker"
	rm -rf "$tmp"
}
trap cleanup EXIT

# One build at a time. macOS has no flock; there two builds cost double, and
# whichever ends last wins with the same programs.
if command -v flock >/dev/null; then
	exec 9>"$target.lock"
	if ! flock --nonblock 9; then
		say "waiting for another build of $version"
		flock 9
	fi
	if done_already; then
		echo "$target"
		exit 0
	fi
	rm -rf "$target".tmp.* # of builds that were killed
fi

# Clients parse the version that the API server reports; without these flags it
# reports none.
IFS=. read -r major minor _ <<<"${version#v}"
pkg=k8s.io/component-base/version
ldflags="-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=$major -X $pkg.gitMinor=$minor"

# build compiles package $2 into $tmp/$1, with a sign of life in between.
build() {
	# The sleep outlives the loop; it must not hold the caller's pipes open.
	while sleep 20 >/dev/null 2>&1; do say "  ... $SECONDS s"; done 9>&- &
	ticker=$!
	CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "$tmp/$1" "$2" 9>&-
	kill "$ticker"
	wait "$ticker" 2>/dev/null || true
	ticker=
}

say "building Kubernetes $version into $target"
say "the first time takes several minutes"
mkdir -p "$tmp"
number=0
for program in "${programs[@]}"; do
	number=$((number + 1))
	say "[$number/${#programs[@]}] ${program%%=*} (${SECONDS} s so far)"
	build "${program%%=*}" "${program#*=}"
done
rm -rf "$target"
mv "$tmp" "$target"
say "done in $SECONDS s"
echo "$target"
