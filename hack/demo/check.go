package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leftCheck is how often the demo looks for what is left. Namespaces end in their own time.
const leftCheck = 200 * time.Millisecond

// expectNothingLeft waits until neither side has anything of an import any more. It asks the API servers, not caches.
func (w *world) expectNothingLeft(ctx context.Context) error {
	var left []string
	err := wait.PollUntilContextTimeout(ctx, leftCheck, patience, true, func(ctx context.Context) (done bool, err error) {
		left, err = w.left(ctx)
		return len(left) == 0, err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Interrupted(err):
		return fmt.Errorf("still there after %s: %s", patience, strings.Join(left, ", "))
	}
	return err
}

// left lists what an import makes and its end has to remove.
func (w *world) left(ctx context.Context) ([]string, error) {
	capi, v3, v1 := &clusterv1.ClusterList{}, &managementv3.ClusterList{}, &provisioningv1.ClusterList{}
	namespaces := &corev1.NamespaceList{}
	for _, list := range []client.ObjectList{capi, v3, v1, namespaces} {
		if err := w.stage.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing what is left: %w", err)
		}
	}
	var left []string
	for _, cluster := range capi.Items {
		left = append(left, "CAPI cluster "+cluster.Name)
	}
	for _, cluster := range v3.Items {
		left = append(left, "v3 Cluster "+cluster.Name)
	}
	for _, cluster := range v1.Items {
		left = append(left, "v1 Cluster "+cluster.Name)
	}
	ranchers := regexp.MustCompile(`^c-(m-)?[a-z0-9]+$`)
	for _, namespace := range namespaces.Items {
		if ranchers.MatchString(namespace.Name) {
			left = append(left, "namespace "+namespace.Name)
		}
	}
	for name, plane := range w.workloads {
		workload, err := client.New(plane.Config, client.Options{})
		if err != nil {
			return nil, fmt.Errorf("creating a client for workload cluster %s: %w", name, err)
		}
		found, err := get(ctx, workload, client.ObjectKey{Name: agentNamespace}, &corev1.Namespace{})
		if err != nil {
			return nil, fmt.Errorf("looking at workload cluster %s: %w", name, err)
		}
		if found {
			left = append(left, "namespace "+agentNamespace+" of workload cluster "+name)
		}
	}
	return left, nil
}

// describe prints condition and Events of a cluster in the manner of kubectl describe.
func (p *printer) describe(t *track) {
	p.command("kubectl describe clusters.cluster.x-k8s.io -n %s %s", t.subject.namespace, t.subject.name)
	var b strings.Builder
	if c := condition(t.last); c != nil {
		fmt.Fprintf(&b, "    Conditions:\n      Type:     %s\n      Status:   %s\n      Reason:   %s\n", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			b.WriteString("      Message:" + strings.TrimPrefix(wrap(c.Message, strings.Repeat(" ", 16)), strings.Repeat(" ", 14)) + "\n")
		}
	}
	b.WriteString("    Events:\n")
	for _, event := range inOrder(t.last.events) {
		head := fmt.Sprintf("      %-8s %-22s", event.Type, event.Reason)
		indent := strings.Repeat(" ", len(head)+1)
		b.WriteString(head + strings.TrimPrefix(wrap(event.Message, indent), indent[1:]) + "\n")
	}
	p.write(b.String())
}

// inOrder sorts Events by when they were first seen.
func inOrder(events []corev1.Event) []corev1.Event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b corev1.Event) int { return firstSeen(a).Compare(firstSeen(b)) })
	return sorted
}

func firstSeen(event corev1.Event) time.Time {
	if !event.EventTime.IsZero() {
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}

// shellQuote makes one word of a path for a shell.
func shellQuote(path string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_./@%+=:-]+$`).MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
