// Package importv1 imports a CAPI cluster as a provisioning.cattle.io/v1 Cluster in the namespace of
// the CAPI cluster, from which Rancher makes its management.cattle.io/v3 Cluster.
package importv1

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	wranglername "github.com/rancher/wrangler/v3/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	importer "github.com/archelon-io/archelon/internal/import"
)

const (
	// nameSuffix keeps the record from ever being named like its CAPI cluster: when Rancher deletes a v1
	// Cluster it also deletes the CAPI Cluster of the same namespace and name.
	nameSuffix = "capi"

	// fleetWorkspaceAnnotation asks Rancher for another Fleet workspace than the record's namespace.
	fleetWorkspaceAnnotation = "provisioning.cattle.io/fleet-workspace-name"
)

// Strategy makes v1 records.
type Strategy struct{}

var _ importer.Strategy = Strategy{}

// Kind implements importer.Strategy.
func (Strategy) Kind() string { return "v1" }

// Nature implements importer.Strategy.
func (Strategy) Nature() importer.Nature { return importer.Nature{TakesCluster: true} }

// NewObject implements importer.Strategy.
func (Strategy) NewObject() client.Object { return &provisioningv1.Cluster{} }

// NewList implements importer.Strategy.
func (Strategy) NewList() client.ObjectList { return &provisioningv1.ClusterList{} }

// Key implements importer.Strategy. The record lives beside its CAPI cluster.
func (Strategy) Key(cluster *clusterv1.Cluster, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: name}
}

// ProposeName returns "<capi name>-capi", shortened with a stable hash over 63 characters. Rancher wants a
// DNS label, so the dots that a CAPI cluster's name may hold are replaced; a hash then keeps "a.b" and "a-b" apart,
// as it does for a name that is taken.
func (Strategy) ProposeName(cluster *clusterv1.Cluster, taken func(string) bool) string {
	base := strings.ReplaceAll(cluster.Name, ".", "-")
	if base == cluster.Name {
		if proposed := wranglername.SafeConcatName(base, nameSuffix); !taken(proposed) {
			return proposed
		}
	}
	hash := sha256.Sum256([]byte(cluster.Namespace + "/" + cluster.Name))
	return wranglername.SafeConcatName(base, hex.EncodeToString(hash[:])[:8], nameSuffix)
}

// Names implements importer.Strategy.
func (s Strategy) Names(cluster *clusterv1.Cluster, name string) bool {
	first := s.ProposeName(cluster, func(string) bool { return false })
	return name == first || name == s.ProposeName(cluster, func(proposed string) bool { return proposed == first })
}

// Render implements importer.Strategy. The spec stays empty but for agent settings: without rkeConfig a v1
// Cluster is a request for an import.
func (Strategy) Render(d importer.Desired) *unstructured.Unstructured {
	annotations := maps.Clone(d.Annotations)
	if d.Description != "" {
		annotations[archelonv1.RancherDescriptionAnnotation] = d.Description
	}
	if d.FleetWorkspace != "" {
		annotations[fleetWorkspaceAnnotation] = d.FleetWorkspace
	}
	spec := map[string]any{}
	d.RenderAgents(spec)
	record := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	record.SetGroupVersionKind(provisioningv1.SchemeGroupVersion.WithKind("Cluster"))
	record.SetNamespace(d.Cluster.Namespace)
	record.SetName(d.Name)
	record.SetLabels(d.Labels)
	record.SetAnnotations(annotations)
	record.SetFinalizers([]string{archelonv1.ImportFinalizer})
	record.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(),
		Kind:       "Cluster",
		Name:       d.Cluster.Name,
		UID:        d.Cluster.UID,
	}})
	return record
}

// DisplayName implements importer.Strategy: Rancher shows the name of the record. The Fleet workspace of the record is
// its own namespace, where Kubernetes keeps names apart, and where everything belongs to the owners of the CAPI
// cluster. Only in another workspace it meets the clusters of others.
func (Strategy) DisplayName(d importer.Desired) (string, bool) {
	return d.Name, d.FleetWorkspace != "" && d.FleetWorkspace != d.Cluster.Namespace
}

// ManagementName returns status.clusterName, which Rancher writes after it made the v3 Cluster.
func (Strategy) ManagementName(record client.Object) string {
	cluster, ok := record.(*provisioningv1.Cluster)
	if !ok {
		return ""
	}
	return cluster.Status.ClusterName
}

// Derived implements importer.Strategy. The v1 Cluster that Rancher makes from a v3 Cluster carries none
// of the owner labels, so it is never taken for a record; it is known by its name as well.
func (Strategy) Derived(object client.Object) bool {
	_, owned := object.GetLabels()[archelonv1.OwnedLabel]
	return !owned
}
