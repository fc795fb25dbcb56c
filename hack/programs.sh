# Sourced by hack/*/build.sh: programs that are built once from pinned modules
# and then kept in the user's cache, until their version changes.
#
#   ARCHELON_CACHE  build below this directory instead of the user's cache
#
# test/env looks in the same places.

say() { echo "$part: $*" >&2; }

# missing prints which files of $2... are not in directory $1.
missing() {
	local file dir=$1
	shift
	for file; do
		[[ -s "$dir/$file" ]] || echo "$file"
	done
}

# As Go's os.UserCacheDir has it, which test/env asks.
user_cache() {
	if [[ "$(go env GOOS)" == darwin ]]; then
		echo "$HOME/Library/Caches"
	else
		echo "${XDG_CACHE_HOME:-$HOME/.cache}"
	fi
}

# cached VERSION FILE... prints the directory that has the files, for this version
# and platform. If it does not exist, the function build_all fills a new one.
cached() {
	local version=$1 parent
	shift
	parent=${ARCHELON_CACHE:-$(user_cache)/archelon}/$part
	target=$parent/$version-$(go env GOOS)-$(go env GOARCH)
	if [[ -z "$(missing "$target" "$@")" ]]; then
		echo "$target"
		return
	fi
	mkdir -p "$parent"
	tmp=$target.tmp.$$
	ticker=
	trap clean_up EXIT

	# One build at a time. macOS has no flock; there two builds cost double, and
	# whichever ends last wins with the same programs.
	if command -v flock >/dev/null; then
		exec 9>"$target.lock"
		if ! flock --nonblock 9; then
			say "waiting for another build of $version"
			flock 9
		fi
		if [[ -z "$(missing "$target" "$@")" ]]; then
			echo "$target"
			return
		fi
		rm -rf "$target".tmp.* # of builds that were killed
	fi

	say "building $version into $target"
	say "the first time takes several minutes"
	mkdir -p "$tmp"
	build_all "$tmp"
	rm -rf "$target"
	mv "$tmp" "$target"
	say "done in $SECONDS s"
	echo "$target"
}

clean_up() {
	[[ -z "$ticker" ]] || kill "$ticker"
	rm -rf "$tmp"
}

# build compiles package $2 into $1, with flags for the linker $3 and a sign of life in between.
build() {
	say "${1##*/} ($SECONDS s so far)"
	# The sleep outlives the loop; it must not hold the caller's pipes open.
	while sleep 20 >/dev/null 2>&1; do say "  ... $SECONDS s"; done 9>&- &
	ticker=$!
	go build -ldflags "$3" -o "$1" "$2" 9>&-
	kill "$ticker"
	wait "$ticker" 2>/dev/null || true
	ticker=
}
