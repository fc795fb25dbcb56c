package check

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/archelon-io/archelon/internal/hub"
)

const managementClustersID = "management-clusters"

// registrations looks at each management cluster that is registered, at all at the same time.
func (c *checker) registrations(ctx context.Context) []Finding {
	namespace := c.ManagementClustersNamespace
	seen, err := hub.Look(ctx, c.clients, namespace, requestTimeout)
	if err != nil {
		return []Finding{unseen(managementClustersID, "The management clusters that are registered", err)}
	}
	all := Finding{ID: managementClustersID, State: OK, Message: fmt.Sprintf("Management clusters that are registered in namespace %s: %d.", namespace, len(seen))}
	if len(seen) == 0 {
		all.State, all.Remedy = Warning, "Register one as examples/management-clusters/README.md says, or check with --management-clusters-namespace."
	}
	found := make([]Finding, len(seen))
	var asked sync.WaitGroup
	for i := range seen {
		asked.Go(func() { found[i] = c.registration(ctx, &seen[i]) })
	}
	asked.Wait()
	return append([]Finding{all}, found...)
}

// registration judges a management cluster.
func (c *checker) registration(ctx context.Context, seen *hub.Seen) Finding {
	f := Finding{ID: "management-cluster-" + seen.Name, State: Error}
	if !seen.Works() && seen.Reason != "" {
		return lost(f, seen.Reason, seen.Message)
	}
	questions, err := c.questions(managementSide)
	if err != nil {
		f.Message = sentence(err.Error())
		return f
	}
	clients, err := kubernetes.NewForConfigAndClient(seen.Config, seen.HTTP)
	if err != nil {
		return lost(f, hub.UnreachableReason, err.Error())
	}
	ctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	lacking, err := lacks(ctx, questions, selfReview(clients))
	switch {
	case err != nil:
		reason, message := hub.Explain(ctx, err)
		return lost(f, reason, message)
	case len(lacking) > 0:
		f.Message = "The account of the kubeconfig lacks: " + name(lacking) + "."
		f.Remedy = "Install the chart of this version with role=management-side there, and use its ServiceAccount archelon-hub."
		return f
	}
	f.State = OK
	f.Message = fmt.Sprintf("It answers, has UID %s, and permits all that is needed.", seen.UID)
	if !seen.Pinned {
		f.Message += " The hub has not connected to it yet."
	}
	return f
}

// lost says why nothing is imported from a management cluster, and what to do. One that is away does not
// stand in the way of the others.
func lost(f Finding, reason, message string) Finding {
	if reason == hub.UnreachableReason {
		f.State = Warning
	}
	message = strings.TrimPrefix(message, "Nothing is imported from this management cluster: ")
	what, remedy, _ := strings.Cut(message, ": ")
	f.Message, f.Remedy = sentence(what), sentence(remedy)
	if f.Remedy == "" {
		f.Remedy = "Correct the Secret that registers it."
	}
	return f
}
