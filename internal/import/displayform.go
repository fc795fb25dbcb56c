package importer

import (
	"fmt"

	wranglername "github.com/rancher/wrangler/v3/pkg/name"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// DisplayNameForm is how v3 Rancher clusters are called whose CAPI Clusters do not ask for a name. A Rancher cluster
// keeps the form that it was created with, by an annotation, so that another choice renames nothing.
type DisplayNameForm string

const (
	// NameForm is the name of the CAPI Cluster. The empty string is the same.
	NameForm DisplayNameForm = "Name"
	// NamespaceNameForm is the namespace of the CAPI Cluster, a dash and its name.
	NamespaceNameForm DisplayNameForm = "NamespaceName"
)

// Validate fails if it is none of these.
func (f DisplayNameForm) Validate() error {
	switch f {
	case NameForm, NamespaceNameForm:
		return nil
	}
	return fmt.Errorf("%q is neither %s nor %s", string(f), NameForm, NamespaceNameForm)
}

// Of returns the display name of a CAPI Cluster. Rancher has it as a label of the cluster in Fleet, so one that is
// longer than fits there is cut, with a stable hash.
func (f DisplayNameForm) Of(cluster *clusterv1.Cluster) string {
	if f != NamespaceNameForm {
		return cluster.Name
	}
	return wranglername.SafeConcatName(cluster.Namespace, cluster.Name)
}

// formOf returns the form that a v3 Rancher cluster was created with. One without the annotation has the first of
// them, as have those that Rancher Turtles made.
func formOf(record client.Object) DisplayNameForm {
	return DisplayNameForm(record.GetAnnotations()[archelonv1.DisplayNameFormAnnotation])
}
