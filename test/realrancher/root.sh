#!/usr/bin/env bash
# What test/node runs for the image of Rancher's agent: what is in the image, with a network namespace of its own, and a root of its own
# in which volumes are where the Pod wants them. The working directory has a link to each volume at its place. ARCHELON_REAL_RANCHER is the
# directory of run.sh, ARCHELON_REAL_PROGRAMS that of the programs.
set -euo pipefail
volumes=$PWD
server=$(sed -n 's|^ *server: https://||p' "$KUBECONFIG")
unset KUBECONFIG TMPDIR
number=10
until mkdir "$ARCHELON_REAL_RANCHER/addresses/$number" 2> /dev/null; do number=$((number + 1)); done
ns=pod-$number
trap 'ip netns del "$ns" 2> /dev/null || true' EXIT
ip netns add "$ns"
ip link add "v$number" type veth peer name eth0 netns "$ns"
ip link set "v$number" master br0 up
ip -n "$ns" link set lo up
ip -n "$ns" addr add "10.98.$((1 + number / 250)).$((1 + number % 250))/16" dev eth0
ip -n "$ns" link set eth0 up
ip -n "$ns" route add default via 10.98.0.1
export KUBERNETES_SERVICE_HOST=${server%:*} KUBERNETES_SERVICE_PORT=${server##*:} KUBERNETES_PORT=tcp://$server
export SSL_CERT_DIR=/etc/kubernetes/ssl/certs HOME=/ PATH=$ARCHELON_REAL_PROGRAMS/podbin:$PATH

# shellcheck disable=SC2016 # The inner shell expands it.
ip netns exec "$ns" unshare --mount --uts --pid --fork --kill-child --propagation private bash -c '
	set -euo pipefail
	volumes=$1
	base=$(mktemp -d)
	mount -t tmpfs tmpfs "$base"
	mkdir "$base"/{upper,work,root}
	mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
	root=$base/root
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mkdir -p "$base/programs"
	mount --bind "$ARCHELON_REAL_PROGRAMS" "$base/programs"
	mount -t tmpfs tmpfs "$root/run"
	[ -L "$root/var/run" ] || { mkdir -p "$root/var/run"; mount --rbind "$root/run" "$root/var/run"; }
	find "$volumes" -path "$volumes/tmp" -prune -o -type l -print | while read -r link; do
		target=$root${link#"$volumes"}
		# In most systems /var/run is a link to /run.
		case "$target" in "$root"/var/run/*) target=$root/run/${target#"$root"/var/run/} ;; esac
		mkdir -p "$target"
		mount --bind "$(readlink -f "$link")" "$target"
	done
	mount -t tmpfs tmpfs "$root/tmp"
	mkdir -p "$root/var/lib/rancher" "$root/var/log/auditlog" "$root$ARCHELON_REAL_PROGRAMS"
	mount --bind "$base/programs" "$root$ARCHELON_REAL_PROGRAMS"
	hostname "$HOSTNAME"
	echo "nameserver 10.98.0.1" > "$root/etc/resolv.conf"
	exec chroot "$root" /bin/bash -c "cd /var/lib/rancher && exec $ARCHELON_REAL_PROGRAMS/podbin/run.sh"
' pod "$volumes" &
child=$!
trap 'kill -TERM "$child" 2> /dev/null' TERM INT
while kill -0 "$child" 2> /dev/null; do wait "$child" && code=0 || code=$?; done
exit "${code:-0}"
