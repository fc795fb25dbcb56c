package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// tier is a label that an administrator sets while a management cluster is away.
const tier = "tier"

// runHub tells how one Archelon imports from two management clusters, one of which goes away and comes back.
func runHub(ctx context.Context, p *printer, _ bool) error {
	p.heading("Archelon demo: one Rancher, two management clusters, and one of them goes away")
	err := tell(ctx, p, "Everything below is real except Rancher and CAPI: four API servers, RBAC, admission, one manager beside Rancher. A stand-in plays "+
		"Rancher and its agents. The demo itself plays CAPI.", func(w *world) (told bool, err error) {
		// Cluster east is the workload cluster of the one in west: that saves a machine.
		w.everywhere, w.clusters = true, []subject{{name: "east"}, {name: "west"}, {name: "shop"}}
		h := &hubStory{world: w}
		defer func() { h.close() }()
		if err := h.begin(ctx, p); err != nil {
			return false, err
		}
		for _, scene := range []func(context.Context, *printer) error{h.register, h.goAway, h.comeBack, h.end} {
			if err := scene(ctx, p); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err == nil {
		p.say("While west was away, nothing of it was deleted and nobody else waited. When it was back, what had happened there was made up for.")
	}
	return err
}

// register has both management clusters be imported from.
func (h *hubStory) register(ctx context.Context, p *printer) error {
	p.heading("Two management clusters, each with a cluster team-a/orders")
	p.say("In each of them the chart was installed with role=management-side. A labelled Secret beside Rancher has the kubeconfig of the account that it creates:")
	began := time.Now()
	for _, s := range h.sites {
		if err := h.createOrders(ctx, s); err != nil {
			return err
		}
		p.command("kubectl create secret generic %s -n %s --from-file=value=%s.kubeconfig", s.name, hubNamespace, s.name)
		p.command("kubectl label secret %s -n %s %s=true", s.name, hubNamespace, archelonv1.ManagementClusterKubeconfigLabel)
		if err := h.registerSite(ctx, s); err != nil {
			return err
		}
		// Who comes first gets the plain name.
		if err := h.witness(ctx, p, began, h.says(s, "Engaged"), h.imported(s)); err != nil {
			return err
		}
	}
	p.say("Both clusters have the same namespace and name. In Rancher they are two, told apart by their display names:")
	for i, want := range []string{"orders", "orders-west"} {
		s := h.sites[i]
		record, err := h.record(ctx, s)
		if err != nil {
			return err
		}
		if record == nil || record.Spec.DisplayName != want {
			return fmt.Errorf("the Rancher cluster of %s is not called %s", s.name, want)
		}
		s.first = record.UID
		p.lines(fmt.Sprintf("%-6s %s  display name %q", s.name, record.Name, record.Spec.DisplayName))
	}
	return h.showStatus(ctx, p, "yes", "yes")
}

// goAway cuts the way to one of them, and shows what is not done then.
func (h *hubStory) goAway(ctx context.Context, p *printer) error {
	p.heading("The network to west is cut")
	east, west := h.sites[0], h.sites[1]
	began := time.Now()
	west.gate.cut()
	if err := h.witness(ctx, p, began, h.says(west, "Unreachable")); err != nil {
		return err
	}
	p.say("Meanwhile, somebody in west deletes its cluster, and somebody in east labels the other one:")
	p.command("kubectl --kubeconfig=west.kubeconfig delete cluster -n %s %s --wait=false", ordersNamespace, ordersName)
	if err := west.client.Delete(ctx, orders()); err != nil {
		return fmt.Errorf("deleting the cluster of west: %w", err)
	}
	p.command("kubectl --kubeconfig=east.kubeconfig label cluster -n %s %s %s=gold", ordersNamespace, ordersName, tier)
	began = time.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"gold"}}}`, tier)
	if err := east.client.Patch(ctx, orders(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("labelling the cluster of east: %w", err)
	}
	if err := h.witness(ctx, p, began, moment{east.name, "its Rancher cluster has label tier=gold: nobody waits for west", func(ctx context.Context) (bool, error) {
		record, err := h.record(ctx, east)
		return record != nil && record.Labels[tier] == "gold", err
	}}); err != nil {
		return err
	}
	if err := h.unharmed(ctx, west); err != nil {
		return err
	}
	p.say("The Rancher cluster of west is as it was: that nobody answers says nothing about its clusters. The CAPI cluster waits with its finalizer.")
	return h.showStatus(ctx, p, "yes", "no")
}

// unharmed fails if the Rancher cluster of a site is another one or is being deleted, or if its CAPI cluster is gone.
func (h *hubStory) unharmed(ctx context.Context, s *hubSite) error {
	record, err := h.record(ctx, s)
	if err != nil {
		return err
	}
	if record == nil || record.UID != s.first || !record.DeletionTimestamp.IsZero() {
		return fmt.Errorf("the Rancher cluster of %s was touched although it does not answer", s.name)
	}
	cluster := &clusterv1.Cluster{}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(orders()), cluster); err != nil {
		return fmt.Errorf("the CAPI cluster of %s does not wait: %w", s.name, err)
	}
	if cluster.DeletionTimestamp.IsZero() {
		return fmt.Errorf("the CAPI cluster of %s is not being deleted", s.name)
	}
	return nil
}

// comeBack mends the way.
func (h *hubStory) comeBack(ctx context.Context, p *printer) error {
	p.heading("West comes back")
	west := h.sites[1]
	began := time.Now()
	if err := west.gate.mend(ctx); err != nil {
		return err
	}
	return h.witness(ctx, p, began, h.says(west, "Engaged"), h.gone(west), h.agentGone(west))
}

// end has the other cluster deleted as well.
func (h *hubStory) end(ctx context.Context, p *printer) error {
	p.heading("The other cluster goes, too")
	east := h.sites[0]
	p.command("kubectl --kubeconfig=east.kubeconfig delete cluster -n %s %s", ordersNamespace, ordersName)
	began := time.Now()
	if err := east.client.Delete(ctx, orders()); err != nil {
		return fmt.Errorf("deleting the cluster of east: %w", err)
	}
	if err := h.witness(ctx, p, began, h.gone(east), h.agentGone(east)); err != nil {
		return err
	}
	p.write("\n")
	return p.task("Checking that nothing is left in any of the four clusters", func() error { return h.expectNothingLeft(ctx) })
}

// says waits until the last Event of the hub about a management cluster has a reason.
func (h *hubStory) says(s *hubSite, reason string) moment {
	return moment{s.name, "Event " + reason + " on its Secret", func(ctx context.Context) (bool, error) {
		events := &corev1.EventList{}
		if err := h.stage.Client.List(ctx, events, client.InNamespace(hubNamespace)); err != nil {
			return false, err
		}
		last, at := "", time.Time{}
		for _, event := range events.Items {
			seen := event.EventTime.Time
			if event.Series != nil {
				seen = event.Series.LastObservedTime.Time
			}
			if event.InvolvedObject.Kind == "Secret" && event.InvolvedObject.Name == s.name && seen.After(at) {
				last, at = event.Reason, seen
			}
		}
		return last == reason, nil
	}}
}

func (h *hubStory) imported(s *hubSite) moment {
	return moment{s.name, "RancherImported=True on cluster team-a/orders", func(ctx context.Context) (bool, error) {
		cluster := &clusterv1.Cluster{}
		err := s.client.Get(ctx, client.ObjectKeyFromObject(orders()), cluster)
		return err == nil && conditions.IsTrue(cluster, archelonv1.RancherImportedCondition), err
	}}
}

func (h *hubStory) gone(s *hubSite) moment {
	return moment{s.name, "the CAPI cluster and its Rancher cluster are gone", func(ctx context.Context) (bool, error) {
		found, err := get(ctx, s.client, client.ObjectKeyFromObject(orders()), &clusterv1.Cluster{})
		if found || err != nil {
			return false, err
		}
		record, err := h.record(ctx, s)
		return record == nil, err
	}}
}

func (h *hubStory) agentGone(s *hubSite) moment {
	return moment{s.name, "Rancher's clean-up has removed its agent", func(ctx context.Context) (bool, error) {
		there, err := administratorOf(h.workloads[s.workload])
		if err != nil {
			return false, err
		}
		found, err := get(ctx, there, client.ObjectKey{Name: agentNamespace}, &corev1.Namespace{})
		return !found && err == nil, err
	}}
}

// record returns the Rancher cluster of a site's cluster, nil if there is none.
func (h *hubStory) record(ctx context.Context, s *hubSite) (*managementv3.Cluster, error) {
	list := &managementv3.ClusterList{}
	if err := h.stage.Client.List(ctx, list, client.MatchingLabels{archelonv1.ManagementClusterLabel: string(s.uid)}); err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 0:
		return nil, nil
	case 1:
		return &list.Items[0], nil
	default:
		return nil, fmt.Errorf("%s has %d Rancher clusters", s.name, len(list.Items))
	}
}

// showStatus prints what the status command says of the management clusters, which is checked.
func (h *hubStory) showStatus(ctx context.Context, p *printer, answers ...string) error {
	p.say("What an administrator sees of them:")
	p.command("archelon status -A --management-clusters-namespace=%s | grep -A9 ^$ | cut -c-96", hubNamespace)
	out, err := h.status(ctx)
	if err != nil {
		return err
	}
	_, below, found := strings.Cut(out, "\n\n")
	rows := strings.Split(strings.TrimRight(below, "\n"), "\n")
	if !found || len(rows) != len(answers)+1 {
		return fmt.Errorf("archelon status says %q", out)
	}
	const width = 96
	for i, row := range rows {
		if i > 0 && strings.Fields(row)[2] != answers[i-1] {
			return fmt.Errorf("archelon status says %q", row)
		}
		p.lines(strings.TrimRight(row[:min(len(row), width)], " "))
	}
	return nil
}

// orders is the CAPI cluster of each management cluster, with nothing but its name.
func orders() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ordersNamespace, Name: ordersName}}
}
