// Package importv3 imports a CAPI cluster as a cluster-scoped management.cattle.io/v3 Cluster
// (document 004, "Management V3 clusters support").
package importv3

import (
	"cmp"
	"maps"
	"regexp"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	importer "github.com/archelon-io/archelon/internal/import"
)

const (
	// namePrefix and nameSuffixLength make a name that Rancher treats like one of its own: it must match
	// ^c-[a-z0-9]{5}$, else Rancher makes no companion for its dashboard and Fleet.
	namePrefix       = "c-"
	nameSuffixLength = 5

	// administratedAnnotation is on every v3 Cluster that Rancher made from a v1 Cluster.
	administratedAnnotation = "provisioning.cattle.io/administrated"
)

// proposed matches what ProposeName returns: Kubernetes' alphabet for generated names has no vowels,
// nor digits that look like one.
var proposed = regexp.MustCompile(`^c-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// Strategy makes v3 records. Their names are random, so the importer writes a chosen name ahead.
type Strategy struct{}

var _ importer.Strategy = Strategy{}

// Kind implements importer.Strategy.
func (Strategy) Kind() string { return "v3" }

// Nature implements importer.Strategy.
func (Strategy) Nature() importer.Nature { return importer.Nature{Itself: true, TakesNamespace: true} }

// NewObject implements importer.Strategy.
func (Strategy) NewObject() client.Object { return &managementv3.Cluster{} }

// NewList implements importer.Strategy.
func (Strategy) NewList() client.ObjectList { return &managementv3.ClusterList{} }

// Key implements importer.Strategy. The record has no namespace.
func (Strategy) Key(_ *clusterv1.Cluster, name string) client.ObjectKey {
	return client.ObjectKey{Name: name}
}

// ProposeName returns "c-" and five random characters of Kubernetes' own alphabet for generated names.
func (Strategy) ProposeName(_ *clusterv1.Cluster, taken func(string) bool) string {
	for {
		if name := namePrefix + rand.String(nameSuffixLength); !taken(name) {
			return name
		}
	}
}

// Names implements importer.Strategy. Rancher takes over the namespace that has the name of a v3 Cluster and deletes it
// with the cluster, so a name of any other form would be somebody's namespace.
func (Strategy) Names(_ *clusterv1.Cluster, name string) bool { return proposed.MatchString(name) }

// DisplayName implements importer.Strategy. Unless the user gives another one, it is the name of the CAPI cluster,
// or has its namespace as well. All v3 records share a Fleet workspace, whatever namespaces their CAPI clusters are in.
func (Strategy) DisplayName(d importer.Desired) (string, bool) {
	return cmp.Or(d.DisplayName, d.Form.Of(d.Cluster)), true
}

// Render implements importer.Strategy.
func (s Strategy) Render(d importer.Desired) *unstructured.Unstructured {
	name, _ := s.DisplayName(d)
	spec := map[string]any{"displayName": name}
	if d.Description != "" {
		spec["description"] = d.Description
	}
	if d.FleetWorkspace != "" {
		spec["fleetWorkspaceName"] = d.FleetWorkspace
	}
	d.RenderAgents(spec)
	if d.Registry != "" {
		imported := map[string]any{"privateRegistryURL": d.Registry}
		if len(d.PullSecrets) > 0 {
			names := make([]any, 0, len(d.PullSecrets))
			for _, name := range d.PullSecrets {
				names = append(names, name)
			}
			imported["privateRegistryPullSecrets"] = names
		}
		spec["importedConfig"] = imported
	}
	record := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	record.SetGroupVersionKind(managementv3.SchemeGroupVersion.WithKind("Cluster"))
	record.SetName(d.Name)
	record.SetLabels(d.Labels)
	annotations := d.Annotations
	if d.Form == importer.NamespaceNameForm {
		annotations = map[string]string{archelonv1.DisplayNameFormAnnotation: string(d.Form)}
		maps.Copy(annotations, d.Annotations)
	}
	record.SetAnnotations(annotations)
	record.SetFinalizers([]string{archelonv1.ImportFinalizer})
	return record
}

// ManagementName implements importer.Strategy: the record is the v3 Cluster itself.
func (Strategy) ManagementName(record client.Object) string { return record.GetName() }

// Derived reports whether Rancher made the v3 Cluster from a v1 Cluster, whose labels it copies.
func (Strategy) Derived(object client.Object) bool {
	_, derived := object.GetAnnotations()[administratedAnnotation]
	return derived
}
