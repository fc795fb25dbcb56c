package instance

import (
	"fmt"
	"strings"
)

// Reasons of Events on the Lease of an instance.
const (
	// sharedReason: some of the namespaces that the instance claims belong to others, or others have yet to leave them.
	sharedReason = "NamespacesLeftToPeer"
	// wholeReason: the instance has all that it claims again.
	wholeReason = "NamespacesRegained"
)

// say tells what the instance does not get, when that has changed.
func (p *Peers) say(share Share) {
	text := describe(share)
	p.mu.Lock()
	told := p.told
	p.told = text
	p.mu.Unlock()
	switch text {
	case told:
	case "":
		p.Logger.Info("This instance works in all namespaces of its scope")
		p.Tell(wholeReason, "This instance works in all namespaces of its scope")
	default:
		p.Logger.Info("This instance does not work in some of its namespaces", "cause", text)
		p.Tell(sharedReason, text)
	}
}

// mostPeers is how many others a message names.
const mostPeers = 5

// describe says in sentences what of its claim an instance does not get, and what to do; empty if it has all.
func describe(share Share) string {
	var parts []string
	for _, part := range share.Left {
		text := fmt.Sprintf("Instance %s has %s", part.Peer, part.Scope.MetricsLabel())
		if part.Gone {
			text = fmt.Sprintf("Instance %s has %s and does not run. Start it, or delete its Lease %s/%s", part.Peer, part.Scope.MetricsLabel(),
				part.Peer.Namespace, part.Peer.LeaseName())
		}
		parts = append(parts, text)
	}
	for _, part := range share.Awaited {
		parts = append(parts, fmt.Sprintf("Waiting until instance %s leaves %s", part.Peer, part.Scope.MetricsLabel()))
	}
	if more := len(parts) - mostPeers; more > 0 {
		parts = append(parts[:mostPeers], fmt.Sprintf("And %d more", more))
	}
	return strings.Join(parts, ". ")
}
