package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/stage"
)

// Names of the story of many management clusters.
const (
	hubNamespace    = stage.SystemNamespace
	hubAccount      = "archelon-hub"
	ordersNamespace = "team-a"
	ordersName      = "orders"
)

// hubSite is a management cluster without Rancher.
type hubSite struct {
	name string
	// workload is where the kubeconfig of its CAPI cluster leads to.
	workload string
	plane    *env.ControlPlane
	client   client.Client
	uid      types.UID
	// gate is the way that the hub takes to it.
	gate *gate
	// first is its Rancher cluster.
	first types.UID
}

// hubStory is what the story is told of.
type hubStory struct {
	*world

	sites []*hubSite
}

// begin brings up all clusters, and the manager beside Rancher.
func (h *hubStory) begin(ctx context.Context, p *printer) error {
	return h.carryOut(ctx, p, []task{
		{buildingManager, h.buildManager},
		{"Building the Rancher stand-in", h.buildStandin},
		{"Starting Rancher's cluster, two management clusters and a workload cluster", h.startControlPlanes},
		{"Starting Rancher", h.startRancher},
		{"Installing the chart with role=management-side in the management clusters", h.prepareSites},
		{"Starting the manager with feature management-clusters beside Rancher", func(ctx context.Context) error {
			if err := h.applyRBAC(ctx); err != nil {
				return err
			}
			return h.startManager(ctx, "--feature-gates=managementv3-cluster=true,management-clusters=true")
		}},
	})
}

// close cuts all ways that are left.
func (h *hubStory) close() {
	for _, s := range h.sites {
		if s.gate != nil {
			s.gate.cut()
		}
	}
}

func (h *hubStory) prepareSites(ctx context.Context) error {
	for _, s := range []*hubSite{{name: "east", workload: "shop"}, {name: "west", workload: "east"}} {
		h.sites = append(h.sites, s)
		if err := h.prepareSite(ctx, s); err != nil {
			return fmt.Errorf("preparing %s: %w", s.name, err)
		}
	}
	return nil
}

// prepareSite installs the chart in a management cluster.
func (h *hubStory) prepareSite(ctx context.Context, s *hubSite) (err error) {
	s.plane = h.workloads[s.name]
	if s.client, err = administratorOf(s.plane); err != nil {
		return err
	}
	own := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, own); err != nil {
		return err
	}
	s.uid = own.UID
	server, err := url.Parse(s.plane.Config.Host)
	if err != nil {
		return err
	}
	if s.gate, err = newGate(ctx, server.Host); err != nil {
		return err
	}
	h2, err := helm.New(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h2.Close()) }()
	objects, err := h2.Template(ctx, helm.Release{
		Name: "hub", Namespace: hubNamespace, Chart: filepath.Join(stage.Root(), "charts", "archelon"),
		Values: map[string]any{"role": "management-side"}, Args: []string{"--kube-version=" + stage.KubeVersion, "--no-hooks"},
	})
	if err != nil {
		return err
	}
	if err := s.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubNamespace}}); err != nil {
		return err
	}
	for i := range objects {
		if err := s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&objects[i]), client.FieldOwner("helm"), client.ForceOwnership); err != nil {
			return err
		}
	}
	return nil
}

// createOrders creates the CAPI cluster of a management cluster, whose control plane is up.
func (h *hubStory) createOrders(ctx context.Context, s *hubSite) error {
	kubeconfig, found := h.kubeconfigs[s.workload]
	if !found {
		return fmt.Errorf("there is no kubeconfig of %s", s.workload)
	}
	cluster := builder.Cluster(ordersNamespace, ordersName)
	cluster.Labels = map[string]string{archelonv1.ImportLabel: "true"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ordersNamespace}},
		builder.KubeconfigSecret(ordersNamespace, ordersName, kubeconfig), cluster,
	} {
		if err := s.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s in %s: %w", object.GetName(), s.name, err)
		}
	}
	builder.ControlPlaneUp(cluster)
	if err := s.client.Status().Update(ctx, cluster); err != nil {
		return fmt.Errorf("reporting the control plane of the cluster of %s: %w", s.name, err)
	}
	return nil
}

// registerSite has the hub import from a management cluster, through its gate.
func (h *hubStory) registerSite(ctx context.Context, s *hubSite) error {
	config, err := s.plane.ServiceAccountConfig(ctx, hubNamespace, hubAccount)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.Host = "https://" + s.gate.address
	kubeconfig, err := s.plane.KubeconfigFor(config)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hubNamespace, Name: s.name, Labels: map[string]string{archelonv1.ManagementClusterKubeconfigLabel: "true"},
		},
		Data: map[string][]byte{"value": kubeconfig},
	}
	if err := h.stage.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("registering %s: %w", s.name, err)
	}
	return nil
}

// status returns what the status command prints.
func (h *hubStory) status(ctx context.Context) (string, error) {
	command := exec.CommandContext(ctx, h.path(managerProgram), "status", "--all-namespaces", "--management-clusters-namespace="+hubNamespace)
	command.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig("management"))
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("archelon status: %w", err)
	}
	return string(out), nil
}
