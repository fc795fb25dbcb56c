package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// lights are light workload clusters: see package workloadserver. Agents in them are played.
type lights interface {
	// Kubeconfig returns that of the administrator of a cluster, as CAPI hands it out.
	Kubeconfig(name string) ([]byte, error)
	// Config returns the same for Rancher.
	Config(name string) *rest.Config
}

// startLights serves light workload clusters for the time of the node: from this process, on kind from a Pod.
func startLights(ctx context.Context, world *stage.Stage) lights {
	GinkgoHelper()
	if kindStage != nil {
		return world.Lights()
	}
	return importing.StartLights(ctx)
}
