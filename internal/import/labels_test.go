package importer

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each of these tools deletes, or has deleted, what has its label and is not in its inventory.
func TestOwnersLabelsAreNotPropagated(t *testing.T) {
	for _, key := range []string{
		"addonmanager.kubernetes.io/mode",
		"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "app.kubernetes.io/name",
		"applyset.kubernetes.io/part-of", "applyset.kubernetes.io/id",
		"argocd.argoproj.io/instance",
		"cli-utils.sigs.k8s.io/inventory-id", "config.k8s.io/owning-inventory",
		"configmanagement.gke.io/managed", "configsync.gke.io/declared-version",
		"crossplane.io/composite", "crossplane.io/claim-name",
		"helm.sh/chart", "helm.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace",
		"resourceset.fluxcd.controlplane.io/name",
		"kapp.k14s.io/app", "kapp.k14s.io/association",
		"work.karmada.io/name", "kluctl.io/discriminator", "kro.run/owned", "kro.run/instance-id",
		"cluster.open-cluster-management.io/clusterset", "olm.owner", "olm.managed", "operators.coreos.com/x.y",
		"skaffold.dev/run-id", "tanka.dev/environment", "velero.io/restore-name", "werf.io/version",
	} {
		cluster := testCluster()
		cluster.Labels = map[string]string{key: "x", "team": "blue"}
		got, err := (Rules{}).propagatedLabels(cluster)
		if diff := cmp.Diff(map[string]string{"team": "blue"}, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", key, err, diff)
		}
	}
}

func TestUnpropagatedLabels(t *testing.T) {
	cluster := testCluster()
	cluster.Labels = map[string]string{
		"team": "", "tracked-by": "", "example.com/owner": "", "example.com/app": "", "sub.example.com/app": "",
		"myargoproj.io/x": "", "topology.kubernetes.io/region": "",
	}
	r := Rules{UnpropagatedLabels: []string{"example.com/*", "tracked-by"}}
	want := []string{"myargoproj.io/x", "sub.example.com/app", "team", "topology.kubernetes.io/region"}
	got, err := r.propagatedLabels(cluster)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
