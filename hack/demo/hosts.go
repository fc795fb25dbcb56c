package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

// Names of the story of HostClaims.
const (
	datacenter   = "datacenter" // the other cluster
	serversIn    = "servers"    // the namespace of the servers, in both
	visitors     = "green-here" // the namespace of a tenant in the other cluster
	tenantRole   = "examples/hostclaim-tenant-role.yaml"
	visitorRole  = "examples/hostclaim-remote-role.yaml"
	tenantMember = "owner"
	// stateLasts is how long a server takes from one state to the next. Real ones take minutes.
	stateLasts = "250ms"
)

// site is a cluster with servers.
type site struct {
	*stage.Stage

	metal3 *standin.Standin
	stop   func() error
}

// servers are the sites of the story.
type servers struct {
	*world

	here, there *site
}

// start brings up both clusters, with a manager in each.
func (s *servers) start(ctx context.Context, p *printer) error {
	const gate = "--feature-gates=host-claim=true"
	return s.carryOut(ctx, p, []task{
		{buildingManager, s.buildManager},
		{"Starting two clusters: ours, and one called " + datacenter, s.startControlPlanes},
		{"Creating the ServiceAccount and the roles of the chart in both", func(ctx context.Context) error {
			there := &stage.Stage{Management: s.workloads[datacenter]}
			var err error
			if there.Client, err = administratorOf(there.Management); err != nil {
				return err
			}
			s.here, s.there = &site{Stage: s.stage}, &site{Stage: there}
			return errors.Join(s.here.prepare(ctx), s.there.prepare(ctx))
		}},
		{"Starting what plays Metal3 in both", func(ctx context.Context) error {
			return errors.Join(s.here.operate(ctx), s.there.operate(ctx))
		}},
		{"Starting the manager with feature host-claim in our cluster", func(ctx context.Context) error {
			return s.startManager(ctx, gate)
		}},
		{"Starting another one in " + datacenter, func(ctx context.Context) error {
			return s.startBeside(ctx, s.there.Stage, gate)
		}},
	})
}

// prepare gives a manager its permissions. Nothing is imported and there is no Rancher, but a manager is ready only
// when it can read its settings.
func (s *site) prepare(ctx context.Context) error {
	for _, name := range []string{rancher.ServerURLSetting, rancher.AgentTLSModeSetting, rancher.CACertsSetting} {
		if err := s.Client.Create(ctx, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("creating setting %s: %w", name, err)
		}
	}
	return s.Prepare(ctx)
}

// stop ends what plays Metal3. The rest is the world's.
func (s *servers) stop() error {
	var errs []error
	for _, at := range []*site{s.here, s.there} {
		if at != nil && at.stop != nil {
			errs = append(errs, at.stop())
		}
	}
	return errors.Join(errs...)
}

// operate has BareMetalHosts live, in the process of the demo.
func (s *site) operate(ctx context.Context) error {
	mgr, err := ctrl.NewManager(s.Management.Config, ctrl.Options{
		Scheme: s.Client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("building the manager of what plays Metal3: %w", err)
	}
	s.metal3 = standin.New(mgr.GetClient())
	if err := s.metal3.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("building what plays Metal3: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	s.stop = func() error {
		cancel()
		return <-ended
	}
	return nil
}

// addServer creates a server that the infrastructure manager has, which is available after a while.
func (s *site) addServer(ctx context.Context, name string, annotations map[string]string) error {
	host := &bmov1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: serversIn, Name: name, Labels: map[string]string{"size": "medium"},
			Annotations: map[string]string{standin.DelayAnnotation: stateLasts},
		},
		Spec: bmov1.BareMetalHostSpec{
			BMC:            bmov1.BMCDetails{Address: "redfish://bmc.example/" + name, CredentialsName: name + "-bmc"},
			BootMACAddress: "52:54:00:01:00:05",
		},
	}
	maps.Copy(host.Annotations, annotations)
	if err := s.Client.Create(ctx, host); err != nil {
		return fmt.Errorf("creating server %s: %w", name, err)
	}
	return nil
}

// admit gives a user a namespace, with a Role of examples/ in it, and returns what it reaches the cluster with.
func (s *site) admit(ctx context.Context, namespace, example string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(stage.Root(), example))
	if err != nil {
		return nil, fmt.Errorf("reading an example: %w", err)
	}
	role := &rbacv1.Role{}
	if err := yaml.UnmarshalStrict(raw, role); err != nil {
		return nil, fmt.Errorf("reading %s: %w", example, err)
	}
	role.Namespace = namespace
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, role,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tenantMember}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tenantMember},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: tenantMember}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
	} {
		if err := s.Client.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %T of %s: %w", object, namespace, err)
		}
	}
	return kubeconfigOf(ctx, s.Management, namespace)
}

// kubeconfigOf returns the kubeconfig of a user, which leads to its namespace.
func kubeconfigOf(ctx context.Context, plane *env.ControlPlane, namespace string) ([]byte, error) {
	who, err := plane.ServiceAccountConfig(ctx, namespace, tenantMember)
	if err != nil {
		return nil, err
	}
	raw, err := plane.KubeconfigFor(who)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		return nil, fmt.Errorf("reading a kubeconfig: %w", err)
	}
	for _, each := range config.Contexts {
		each.Namespace = namespace
	}
	return clientcmd.Write(*config)
}

// server returns a server as it is.
func (s *site) server(ctx context.Context, name string) (*bmov1.BareMetalHost, error) {
	host := &bmov1.BareMetalHost{}
	return host, s.Client.Get(ctx, client.ObjectKey{Namespace: serversIn, Name: name}, host)
}

// claim returns a claim as it is, nil if there is none.
func (s *site) claim(ctx context.Context, namespace, name string) (*metal3v1.HostClaim, error) {
	claim := &metal3v1.HostClaim{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return claim, err
}

// left lists what claims leave that should be gone with them.
func (s *site) left(ctx context.Context) ([]string, error) {
	claims, hosts, secrets := &metal3v1.HostClaimList{}, &bmov1.BareMetalHostList{}, &corev1.SecretList{}
	for _, list := range []client.ObjectList{claims, hosts, secrets} {
		if err := s.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing what is left: %w", err)
		}
	}
	var left []string
	for _, claim := range claims.Items {
		left = append(left, "HostClaim "+claim.Name)
	}
	for _, host := range hosts.Items {
		if host.Spec.ConsumerRef != nil || host.Spec.Image != nil || host.Spec.UserData != nil {
			left = append(left, "what server "+host.Name+" was told")
		}
		for key := range host.Annotations {
			if strings.HasPrefix(key, "hostclaims.metal3.io/") && key != metal3v1.NamespacesKey {
				left = append(left, key+" of server "+host.Name)
			}
		}
	}
	for _, secret := range secrets.Items {
		if secret.Labels[metal3v1.ClaimUIDLabel] != "" || secret.Labels[metal3v1.OriginLabel] != "" || len(secret.Finalizers) > 0 {
			left = append(left, "Secret "+secret.Name)
		}
	}
	return left, nil
}
