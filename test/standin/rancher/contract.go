package rancher

import (
	"context"

	"k8s.io/client-go/rest"
)

// Workload says more about a workload cluster.
type Workload string

// Kinds of workload clusters.
const (
	// RealAgent says that the agent in the workload cluster is a program of its own, which connects by itself: see
	// test/standin/agent. Without it the stand-in plays the agent.
	RealAgent Workload = "real-agent"
	// Ephemeral says that the workload cluster does not outlive the stand-in, which therefore does not keep
	// it in Options.StateNamespace.
	Ephemeral Workload = "ephemeral"
)

// Control is what a test can do with a running stand-in, wherever it runs: Standin has it in its own process, and
// remote.Remote for a stand-in in a Pod. Its methods are explained at Standin.
//
//nolint:interfacebloat // it is the list of what a Standin and a Remote have in common
type Control interface {
	AddWorkload(name string, config *rest.Config, how ...Workload) error
	RemoveWorkload(name string)
	HoldTokens(ctx context.Context, hold bool) error
	HoldConnect(hold bool)
	RequireAgentEnv(name string)
	Connected(cluster string) (workload string, ok bool)
	Reapplies(cluster string) int
	SetServerURL(ctx context.Context, url string) error
	SetAgentTLSMode(ctx context.Context, mode string) error
	RotateCA(ctx context.Context) error
	RotateToken(ctx context.Context, cluster string) error
	SetFault(f Fault)
	ClearFaults()
	ImportRequests() []Request
	URL() string
	CACert() []byte
	Down()
	Up(ctx context.Context) error
	Stop()
}

var _ Control = &Standin{}
