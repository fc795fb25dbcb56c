package realrancher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/kind"
)

// Chart says which Rancher to install.
type Chart struct {
	// Chart is that of Rancher: whatever Helm takes for one, such as a directory or the URL of an archive.
	Chart string
	// Values is a file with values of the chart, beside those of the test; empty for none. Rancher installs its webhook
	// by itself if it can reach a registry. If it cannot, these values have to make Deployment rancher-webhook, with no
	// replicas: Rancher has to be the first that starts.
	Values string
}

// release is a Rancher that Helm has installed in a cluster of kind.
type release struct {
	*World

	cluster *kind.Cluster
	helm    *helm.Helm
	server  string
}

// Install installs Rancher in the management cluster of kind, which has the images or pulls them. The agent is in the
// first workload cluster. The caller has to call Stop, and to end the clusters.
func Install(ctx context.Context, clusters *kind.World, chart Chart) (*World, error) {
	r := &release{World: &World{}, cluster: clusters.Management}
	r.installed = r
	if err := r.install(ctx, clusters, chart); err != nil {
		return nil, errors.Join(fmt.Errorf("installing a real Rancher: %w", err), r.stop())
	}
	return r.World, nil
}

func (r *release) install(ctx context.Context, clusters *kind.World, chart Chart) error {
	var err error
	if r.Management, err = clusters.Management.ControlPlane(); err != nil {
		return err
	}
	if r.Workload, err = clusters.Workloads[0].ControlPlane(); err != nil {
		return err
	}
	if err := r.connect(); err != nil {
		return err
	}
	crds, err := capiCRDs()
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(r.cluster.Config, envtest.CRDInstallOptions{CRDs: append(crds, issuers())}); err != nil {
		return fmt.Errorf("installing the CRDs that Rancher needs: %w", err)
	}
	if err := r.installChart(ctx, chart); err != nil {
		return err
	}
	return r.begin(ctx)
}

// installChart has Helm install the chart, with a Service that agents in other clusters reach at a node.
func (r *release) installChart(ctx context.Context, chart Chart) error {
	kubeconfig, err := r.Management.LocalKubeconfig()
	if err != nil {
		return err
	}
	if r.helm, err = helm.New(kubeconfig); err != nil {
		return err
	}
	var further []byte
	if chart.Values != "" {
		if further, err = os.ReadFile(chart.Values); err != nil {
			return err
		}
	}
	ip, err := r.cluster.IP()
	if err != nil {
		return err
	}
	release := helm.Release{
		Name: rancherName, Namespace: rancherNamespace, Chart: chart.Chart, ValuesYAML: string(further),
		Args: []string{"--create-namespace"},
		Values: map[string]any{
			"replicas": 1, "hostname": ip, "bootstrapPassword": password,
			"networkExposure": map[string]any{"type": "none"},
			"ingress":         map[string]any{"enabled": false},
			"service":         map[string]any{"type": string(corev1.ServiceTypeNodePort)},
			"features":        "turtles=false",
		},
	}
	if _, err := r.helm.Status(ctx, release); err != nil { // Clusters that are kept have it already.
		if err := r.helm.Install(ctx, release); err != nil {
			return err
		}
	}
	service := &corev1.Service{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: rancherNamespace, Name: rancherName}, service); err != nil {
		return err
	}
	for _, port := range service.Spec.Ports {
		if port.Port == 443 {
			r.server = "https://" + net.JoinHostPort(ip, strconv.Itoa(int(port.NodePort)))
			return nil
		}
	}
	return errors.New("the Service of Rancher has no port 443")
}

// issuers is the CRD of an object that the chart makes where Rancher is its own certificate authority. Nobody needs it
// without an Ingress, so nothing else of cert-manager is there.
func issuers() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "issuers.cert-manager.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "cert-manager.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "issuers", Singular: "issuer", Kind: "Issuer", ListKind: "IssuerList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
				},
			}},
		},
	}
}

// url implements installation.
func (r *release) url() string { return r.server }

// up implements installation.
func (r *release) up(ctx context.Context, name string) error {
	// Rancher may be the one that installs its webhook, some time after its start.
	err := await(ctx, "Deployment "+name, func(ctx context.Context) error { return r.cluster.Scale(ctx, key(name), 1) })
	if err != nil {
		return err
	}
	return r.cluster.AwaitReady(ctx, key(name), startTimeout)
}

// down implements installation.
func (r *release) down(ctx context.Context, name string) error {
	return r.cluster.End(ctx, key(name), "app="+name, true)
}

// stop implements installation.
func (r *release) stop() error {
	if r.helm == nil {
		return nil
	}
	return r.helm.Close()
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: rancherNamespace, Name: name}
}
