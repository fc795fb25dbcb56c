// Package docs knows where the pages of the documentation are, for messages that lead to them.
package docs

import "strings"

// base is where the files of the repository can be read. The linker sets it for a release, whose pages have the tag of
// the release in their URL: see LDFLAGS in the Makefile.
//
//nolint:gochecknoglobals // the linker sets variables only
var base = "https://github.com/archelon-io/archelon/blob/main"

// Paths of pages in the repository.
const (
	// FleetEngaged is where condition FleetEngaged is explained.
	FleetEngaged = "docs/operations/fleet.md#condition-fleetengaged"
	// AgentManifest is where condition AgentManifest is explained.
	AgentManifest = "docs/operations/agent-delivery.md#condition-agentmanifest"
	// Turtles is about Rancher Turtles beside Archelon.
	Turtles = "docs/operations/turtles.md"
)

// Reason returns the path at which a reason of condition RancherImported is explained: each has an anchor.
func Reason(reason string) string { return "docs/operations/conditions.md#" + strings.ToLower(reason) }

// Page returns the URL of a path, for example of Turtles.
func Page(path string) string { return strings.TrimSuffix(base, "/") + "/" + path }

// See adds to a message the URL of a path that explains it. Messages end without a full stop, so that the URL is whole
// where it is copied from a terminal.
func See(message, path string) string { return message + ". See " + Page(path) }
