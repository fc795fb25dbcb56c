#!/usr/bin/env bash
# run.sh COMMAND... runs a command where package realrancher can work: in a network namespace without a way out, with a bridge
# for Pods, and with directories of its own where Rancher writes to fixed places. Everything is gone when the command has ended. It needs root.
set -euo pipefail
if [ -z "${ARCHELON_REAL_RANCHER:-}" ]; then
	dir=$(mktemp -d "${TMPDIR:-/tmp}/archelon-real-XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	mkdir -p /var/lib/rancher
	ARCHELON_REAL_RANCHER=$dir unshare --net --mount --propagation private "$0" "$@"
	exit
fi
mount -t tmpfs tmpfs /var/lib/rancher
mkdir -p /run/netns "$ARCHELON_REAL_RANCHER/addresses"
mount -t tmpfs tmpfs /run/netns
ip link set lo up
ip link add br0 type bridge
ip addr add 10.98.0.1/16 dev br0
ip link set br0 up
# Some programs look for their own address by the default route.
ip route add default via 10.98.0.254 dev br0
exec "$@"
