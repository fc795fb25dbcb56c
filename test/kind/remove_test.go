package kind

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/archelon-io/archelon/test/process"
)

// engine is a docker program that has a container for each file in $state/containers, likewise a network, and counts in
// $state/passes how often it is asked for containers. A file in $state/late is a container that comes with the third
// pass, one in $state/busy a network that cannot be removed in that many passes.
const engine = `
mkdir -p "$state/containers" "$state/networks"
case "$1 $2" in
"ps --all")
	[ "$5" = "name=^world-" ] || exit 9
	echo >>"$state/passes"
	[ "$(wc -l <"$state/passes")" -lt 3 ] || mv "$state"/late/* "$state/containers" 2>/dev/null
	ls "$state/containers" ;;
"network ls")
	[ "$5" = 'name=^world$' ] || exit 9
	ls "$state/networks" ;;
"network rm")
	if [ -f "$state/busy" ] && [ "$(wc -l <"$state/passes")" -le "$(cat "$state/busy")" ]; then
		echo "Error response from daemon: network has active endpoints" >&2
		exit 1
	fi
	rm "$state/networks/$3" ;;
"rm --force")
	shift 3
	for name; do rm "$state/containers/$name"; done ;;
*) exit 9 ;;
esac
`

func TestStop(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
	}{
		"nothing there": {
			reason: "A start may fail before the engine has made anything.",
		},
		"clusters": {
			reason: "Containers and the network go.",
			files:  map[string]string{"containers/c1": "", "containers/c2": "", "networks/n1": ""},
		},
		"two networks": {
			reason: "The engine allows two of one name, and kind removes them only when it makes a cluster.",
			files:  map[string]string{"networks/n1": "", "networks/n2": ""},
		},
		"late container": {
			reason: "A container that was being made comes after everything else had gone.",
			files:  map[string]string{"containers/c1": "", "networks/n1": "", "late/c2": ""},
		},
		"busy network": {
			reason: "A network that cannot be removed at first is tried again.",
			files:  map[string]string{"networks/n1": "", "busy": "3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := world(t, tc.files)
			w := &World{name: "world", dir: directory(t)}
			dir := w.dir
			if err := w.Stop(); err != nil {
				t.Fatalf("%s\nStop(): %v", tc.reason, err)
			}
			checkGone(t, tc.reason, dir)
			for _, pattern := range []string{"containers/*", "networks/*", "late/*"} {
				if left, _ := filepath.Glob(filepath.Join(state, pattern)); len(left) > 0 {
					t.Errorf("%s\nStop() left %v", tc.reason, left)
				}
			}
			if err := w.Stop(); err != nil {
				t.Errorf("Stop() again: %v", err)
			}
		})
	}
}

func TestStopSaysWhatIsLeft(t *testing.T) {
	world(t, map[string]string{"networks/n1": "", "busy": "1000"})
	w := &World{name: "world", dir: directory(t)}
	dir := w.dir
	checkError(t, "A network that cannot be removed at all is said, and why.", w.Stop(), "networks left: n1", "active endpoints")
	checkGone(t, "The directory goes anyway.", dir)
}

func TestStopWithoutEngine(t *testing.T) {
	fakeDocker(t, "echo Cannot connect to the Docker daemon >&2; exit 1")
	w := &World{name: "world", dir: directory(t)}
	checkError(t, "An engine that does not answer may have anything left.", w.Stop(), "Cannot connect")
}

func TestStopKeeps(t *testing.T) {
	fakeDocker(t, "exit 9")
	w := &World{name: "world", keep: true, dir: directory(t)}
	if err := w.Stop(); err != nil {
		t.Errorf("Stop(): %v", err)
	}
	if _, err := os.Stat(w.dir); err != nil {
		t.Errorf("Stop() of a world that is kept: %v", err)
	}
}

// TestWatchdog has the watchdog do what Stop does: its script is the same, with a line before it.
func TestWatchdog(t *testing.T) {
	state, dir := world(t, map[string]string{"containers/c1": ""}), directory(t)
	watchdog, err := process.OnDeath(removeScript, "world", dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := watchdog.End(false); err != nil {
		t.Fatal(err)
	}
	checkGone(t, "The watchdog removes containers.", filepath.Join(state, "containers", "c1"))
	checkGone(t, "The watchdog removes the directory.", dir)
}

// TestDirectory checks that the engine can mount what the nodes are to have: many share nothing of this
// machine but the home directory.
func TestDirectory(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{true, false} {
		w := &World{name: "world", keep: keep}
		if err := w.makeDirectory(); err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(cache, "archelon", "kind", "world"); w.dir != want {
			t.Errorf("the directory of a world with keep %v is %s, want %s", keep, w.dir, want)
		}
	}
}

// world makes an engine with the given files its state, and returns where that is.
func world(t *testing.T, files map[string]string) (state string) {
	t.Helper()
	state = fakeDocker(t, engine)
	for file, content := range files {
		path := filepath.Join(state, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, content)
	}
	return state
}

// directory returns one with a file in it, as a world has.
func directory(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "world")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "kubeconfig"), "")
	return dir
}

func checkGone(t *testing.T, reason, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s\n%s is still there: %v", reason, path, err)
	}
}
