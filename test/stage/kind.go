package stage

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/kind"
	"github.com/archelon-io/archelon/test/standin/rancher"
	"github.com/archelon-io/archelon/test/standin/rancher/remote"
)

const (
	rancherNamespace = "cattle-system"
	rancherName      = "rancher"
	// rancherPort is that of Rancher on the nodes of the management cluster: agents come from other clusters.
	rancherPort = 30443
	// connectedCheck is the pace at which Rancher looks whether agents are connected, every 15 s in reality. When
	// the Deployment of an agent is rolled, its old Pod goes before the new one has connected, which nobody sees who
	// does not look all the time.
	connectedCheck = 3 * time.Second
	// startTimeout is how long Pods may take to run: images are there, but two cores do everything.
	startTimeout = 3 * time.Minute
)

//go:embed standin.yaml
var standinManifest string

var standinTemplate = template.Must(template.New("standin").Parse(standinManifest))

// Kind is a world of kind on which stages are set, one after the other. Rancher's stand-in, agents and
// the manager are Pods there.
type Kind struct {
	world *kind.World
	out   io.Writer
	// failed is told of errors of those methods of Rancher that return none.
	failed func(error)
}

// OnKind builds the images and loads them into the clusters.
func OnKind(ctx context.Context, world *kind.World, out io.Writer, failed func(error)) (*Kind, error) {
	if err := loadImages(ctx, append(managerImages(world), standinImages(world)...)); err != nil {
		return nil, err
	}
	return &Kind{world: world, out: out, failed: failed}, nil
}

// World returns the clusters.
func (k *Kind) World() *kind.World { return k.world }

// onKind is a stage on kind.
type onKind struct {
	*Kind
	stage  *Stage
	used   []string // names of the workload clusters in use, empty for those that are free
	helm   *helm.Helm
	remote *remote.Remote
}

// Lights are light workload clusters in the Pod of Rancher's stand-in: see package workloadserver.
type Lights struct{ on *onKind }

// Lights returns the light workload clusters of a stage on kind.
func (s *Stage) Lights() Lights { return Lights{on: s.kind} }

// Kubeconfig returns that of the administrator of a cluster, as CAPI hands it out.
func (l Lights) Kubeconfig(name string) ([]byte, error) { return l.on.remote.LightKubeconfig(name) }

// Config returns the same for Rancher, which finds it where everybody in the management cluster does.
func (l Lights) Config(name string) *rest.Config {
	raw, err := l.Kubeconfig(name)
	if err == nil {
		var config *rest.Config
		if config, err = clientcmd.RESTConfigFromKubeConfig(raw); err == nil {
			config.ContentType = "application/json" // all that they understand
			return config
		}
	}
	l.on.failed(err)
	return &rest.Config{}
}

// start clears what an earlier stage has left, and sets a new one.
func (k *Kind) start(ctx context.Context, standin rancher.Options) (*Stage, error) {
	for _, cluster := range append([]*kind.Cluster{k.world.Management}, k.world.Workloads...) {
		if err := wipe(ctx, cluster.Config, false); err != nil {
			return nil, fmt.Errorf("clearing %s: %w", cluster.Name, err)
		}
	}
	s := &Stage{}
	if err := k.lend(s); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if err := s.kind.prepare(ctx, standin); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// lend gives a stage the clusters, and Helm.
func (k *Kind) lend(s *Stage) error {
	s.kind = &onKind{Kind: k, stage: s, used: make([]string, len(k.world.Workloads))}
	var err error
	if s.Management, err = k.world.Management.ControlPlane(); err != nil {
		return err
	}
	kubeconfig, err := s.Management.LocalKubeconfig()
	if err != nil {
		return err
	}
	s.kind.helm, err = helm.New(kubeconfig)
	return err
}

// prepare installs what a management cluster has, and Rancher's stand-in.
func (o *onKind) prepare(ctx context.Context, standin rancher.Options) error {
	known, err := scheme.New()
	if err != nil {
		return err
	}
	config := rest.CopyConfig(o.stage.Management.Config)
	config.QPS = -1
	crds, err := env.CAPICRDs()
	if err != nil {
		return err
	}
	ranchers, err := rancher.CRDs(standin.StatusSubresource)
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: append(crds, ranchers...)}); err != nil {
		return fmt.Errorf("installing the CRDs: %w", err)
	}
	if o.stage.Client, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return err
	}
	return o.startRancher(ctx, standin)
}

// startRancher installs the stand-in and waits until it answers.
func (o *onKind) startRancher(ctx context.Context, standin rancher.Options) error {
	ip, err := o.world.Management.IP()
	if err != nil {
		return err
	}
	standin.Timings.Disconnect = max(standin.Timings.Disconnect, connectedCheck)
	timings, err := json.Marshal(standin.Timings)
	if err != nil {
		return err
	}
	keys, err := workloadserver.NewKeys()
	if err != nil {
		return err
	}
	var manifest strings.Builder
	err = standinTemplate.Execute(&manifest, map[string]any{
		"Image": rancherImage, "Port": rancherPort, "LightKeys": string(keys),
		"Args": []string{
			"--in-cluster", "--install-crds=false",
			"--token-mode=" + string(standin.TokenMode),
			"--status-subresource=" + strconv.FormatBool(standin.StatusSubresource),
			"--strict-import=" + strconv.FormatBool(standin.StrictImport),
			"--agent-tls-mode=" + standin.AgentTLSMode,
			"--timings=" + string(timings),
			"--listen=:8443", "--control-listen=:8080", "--webhook-listen=:9443",
			"--webhook-service=" + rancherNamespace + "/" + rancherName + ":9443",
			"--server-url=https://" + net.JoinHostPort(ip, strconv.Itoa(rancherPort)),
			"--host=" + rancherName + "." + rancherNamespace + ".svc",
			"--light-listen=:7443", "--light-url=https://" + rancherName + "." + rancherNamespace + ".svc:7443", "--light-keys=/light-keys/keys.pem",
		},
	})
	if err != nil {
		return err
	}
	objects, err := parse([]byte(manifest.String()))
	if err != nil {
		return err
	}
	if err := o.stage.apply(ctx, objects); err != nil {
		return err
	}
	if err := o.world.Management.AwaitReady(ctx, client.ObjectKey{Namespace: rancherNamespace, Name: rancherName}, startTimeout); err != nil {
		return err
	}
	o.remote = remote.Dial(o.world.Management.Config, rancherNamespace, rancherName, "control", o.failed)
	o.stage.Rancher = o.remote
	return o.awaitWebhook(ctx)
}

// awaitWebhook waits until the API server reaches Rancher's webhook through its Service: that a Pod is ready comes
// before it is known everywhere.
func (o *onKind) awaitWebhook(ctx context.Context) error {
	probe := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"}}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = o.stage.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for Rancher's webhook: %w", errors.Join(err, last))
	}
	return nil
}

// RancherReady returns nil if the stand-in answers. In the process of the test it always does.
func (s *Stage) RancherReady(ctx context.Context) error {
	if s.kind == nil || s.kind.remote == nil {
		return nil
	}
	return s.kind.remote.Ready(ctx)
}

// workload takes a workload cluster that is free.
func (o *onKind) workload(name string) (*env.ControlPlane, error) {
	free := slices.Index(o.used, "")
	if free < 0 {
		return nil, fmt.Errorf("all %d workload clusters are in use", len(o.used))
	}
	plane, err := o.world.Workloads[free].ControlPlane()
	if err != nil {
		return nil, err
	}
	if err := o.attach(name, plane); err != nil {
		return nil, err
	}
	o.used[free] = name
	return plane, nil
}

// attach lets the agent that runs in a workload cluster reach Rancher, and Rancher the cluster.
func (o *onKind) attach(name string, plane *env.ControlPlane) error {
	config := rest.CopyConfig(plane.Config)
	config.Host = plane.Server()
	return o.stage.Rancher.AddWorkload(name, config, rancher.RealAgent)
}

// stop ends the stage. What it leaves is cleared by the next one: the clusters may be looked at until then.
func (o *onKind) stop() error {
	if o.helm == nil {
		return nil
	}
	return o.helm.Close()
}
