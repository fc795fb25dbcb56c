package node

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// Address returns where a port of a Pod listens, as host:port. The port is that of a container, by its name or,
// if it has none, its number.
func (n *Node) Address(key types.NamespacedName, port string) (string, error) {
	p, err := n.pod(key)
	if err != nil {
		return "", err
	}
	if address, ok := p.ports.address(port); ok {
		return address, nil
	}
	return "", fmt.Errorf("pod %s has no port %s", key, port)
}

// Logs returns what the containers of a Pod have printed so far, over all restarts. It also knows Pods that have ended.
func (n *Node) Logs(key types.NamespacedName) string {
	return n.log(key).String()
}

// Kill kills the containers of a Pod, as if they had crashed: they are restarted as the Pod says.
func (n *Node) Kill(key types.NamespacedName) error { return n.signal(key, syscall.SIGKILL) }

// Freeze makes the containers of a Pod stand still, as on a machine that swaps. Probes fail then.
func (n *Node) Freeze(key types.NamespacedName) error { return n.signal(key, syscall.SIGSTOP) }

// Resume undoes Freeze.
func (n *Node) Resume(key types.NamespacedName) error { return n.signal(key, syscall.SIGCONT) }

func (n *Node) signal(key types.NamespacedName, signal syscall.Signal) error {
	p, err := n.pod(key)
	if err != nil {
		return err
	}
	running := p.processes()
	if len(running) == 0 {
		return fmt.Errorf("pod %s has no container that runs", key)
	}
	var errs []error
	for _, each := range running {
		errs = append(errs, each.Signal(signal))
	}
	return errors.Join(errs...)
}

func (n *Node) pod(key types.NamespacedName) (*pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.key == key {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no pod %s on node %s", key, n.opts.Name)
}

func (n *Node) log(key types.NamespacedName) *log {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logOf(key)
}

func (n *Node) logOf(key types.NamespacedName) *log {
	l, known := n.logs[key]
	if !known {
		l = &log{}
		n.logs[key] = l
	}
	return l
}

// ports says where the ports of a Pod are on this machine.
type ports struct {
	numbers map[int32]int
	names   map[string]int32
}

func (p ports) address(port string) (string, bool) {
	number, named := p.names[port]
	if !named {
		parsed, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return "", false
		}
		number = int32(parsed)
	}
	local, declared := p.numbers[number]
	return podIP + ":" + strconv.Itoa(local), declared
}
