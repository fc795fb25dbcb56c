package scheme

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMapperAgreesWithScheme(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for gvk, want := range map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "Secret"}:                                                            "secrets",
		{Version: "v1", Kind: "Namespace"}:                                                         "namespaces",
		{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"}:                           "clusters",
		{Group: "management.cattle.io", Version: "v3", Kind: "Cluster"}:                            "clusters",
		{Group: "management.cattle.io", Version: "v3", Kind: "ClusterRegistrationToken"}:           "clusterregistrationtokens",
		{Group: "management.cattle.io", Version: "v3", Kind: "Setting"}:                            "settings",
		{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"}:                          "clusters",
		{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "OCIClusterIdentity"}: "ociclusteridentities",
		{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "OCICluster"}:         "ociclusters",
		{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "OCIManagedCluster"}:  "ocimanagedclusters",
	} {
		if !s.Recognizes(gvk) {
			t.Errorf("the scheme does not know %s", gvk)
		}
		mapping, err := Mapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil || mapping.Resource.Resource != want {
			t.Errorf("%s: got %v, %v, want resource %s", gvk, mapping, err, want)
			continue
		}
		list, err := Mapper().RESTMapping(schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind + "List"}, gvk.Version)
		if err != nil || list.Scope != mapping.Scope {
			t.Errorf("lists of %s: got %v, %v, want the scope of the kind", gvk, list, err)
		}
	}
}
