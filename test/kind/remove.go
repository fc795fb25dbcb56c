package kind

import (
	"bytes"
	"fmt"
	"os/exec"

	"github.com/archelon-io/archelon/test/process"
)

// removeScript removes the containers whose names begin with $1-, with their volumes, the network $1 and the directory
// $2. The names are enough: the engine may know of containers that this process had no time to hear of. One pass is
// not: a container may come into being after it, because who makes it does not end with this process, and a network
// cannot be removed before the last container has left it. So the script is done when it has found nothing twice. It
// gives up after a minute, and says what is left and why.
const removeScript = `
pass() {
	containers=$(docker ps --all --quiet --filter "name=^$1-") || return
	networks=$(docker network ls --quiet --filter "name=^$1\$") || return
	[ -n "$containers$networks" ] || return 0
	echo "containers left:" $containers "networks left:" $networks >&2
	[ -z "$containers" ] || docker rm --force --volumes $containers
	[ -z "$networks" ] || docker network rm $networks
	return 1
}
clear=0
passes=0
while [ "$clear" -lt 2 ] && [ "$passes" -lt 30 ]; do
	[ "$passes" -eq 0 ] || sleep 2
	passes=$((passes + 1))
	if why=$(pass "$1" 2>&1 >/dev/null); then
		clear=$((clear + 1))
	else
		clear=0
	fi
done
rm -rf "$2"
[ "$clear" -eq 2 ] || { echo "$why" >&2; exit 1; }
`

// Stop removes the clusters and their network, unless the world is to be kept. It fails if something is left; the
// watchdog tries once more then, when this process ends.
func (w *World) Stop() error {
	if w.keep || w.dir == "" {
		return nil
	}
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", removeScript, "archelon-remove", w.name, w.dir) //nolint:noctx // the end comes last
	cmd.Stderr = &out
	script, err := process.Start(cmd) // it goes on when Ctrl-C is hit again
	if err != nil {
		return fmt.Errorf("removing the clusters %s: %w", w.name, err)
	}
	if code := script.ExitCode(); code != 0 {
		return fmt.Errorf("removing the clusters %s: exit code %d\n%s", w.name, code, out.String())
	}
	w.dir = ""
	if w.watchdog == nil {
		return nil
	}
	return w.watchdog.End(true)
}
