package hostclaim

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

func kept(t *testing.T, claim *metal3v1.HostClaim) *metal3v1.HostClaim {
	t.Helper()
	object, err := KeepClaim(claim)
	is, ok := object.(*metal3v1.HostClaim)
	if err != nil || !ok {
		t.Fatalf("got %T, %v", object, err)
	}
	return is
}

// What a cache has left out must not be removed by a patch: where a map becomes empty, a patch removes all of it.
func TestWhatIsLeftOutIsInNoPatch(t *testing.T) {
	before := kept(t, &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"example.com/a": "1", "example.com/b": "2", metal3v1.HostLabel: "h"},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", metal3v1.ParkedAnnotation: "h"},
	}})
	after := before.DeepCopy()
	delete(after.Labels, metal3v1.HostLabel)
	delete(after.Annotations, metal3v1.ParkedAnnotation)
	patch, err := client.MergeFrom(before).Data(after)
	want := `{"metadata":{"annotations":{"hostclaims.metal3.io/parked":null},"labels":{"hostclaims.metal3.io/host":null}}}`
	if err != nil || string(patch) != want {
		t.Errorf("got %s, %v, want %s", patch, err, want)
	}
}

func TestAClaimWithTooMuchMetadataIsKnownAsThat(t *testing.T) {
	usual := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{metal3v1.RebootAnnotation: "", "info.hostclaims.metal3.io/x": "v"}, Finalizers: []string{"example.com/f"},
	}}
	if is := kept(t, usual.DeepCopy()); !IsKept(is) || len(is.Annotations) != 2 || len(is.Finalizers) != 1 {
		t.Errorf("of a usual claim there is %v", is.ObjectMeta)
	}
	for name, finalizers := range map[string][]string{
		"held by us": {"example.com/f", metal3v1.BareMetalFinalizer, metal3v1.BareMetalFinalizer}, "held by others": {"example.com/f"},
	} {
		claim := usual.DeepCopy()
		claim.Labels = map[string]string{clusterv1.ClusterNameLabel: "k", metal3v1.MachineLabel: "true", metal3v1.HostLabel: "h"}
		claim.Finalizers = finalizers
		for i := range 1000 {
			claim.Finalizers = append(claim.Finalizers, fmt.Sprintf("example.com/%d", i))
		}
		is := kept(t, claim)
		ours := slices.Contains(finalizers, metal3v1.BareMetalFinalizer)
		if IsKept(is) || len(is.Finalizers) != 1 || slices.Contains(is.Finalizers, metal3v1.BareMetalFinalizer) != ours ||
			is.Labels[clusterv1.ClusterNameLabel] != "k" || is.Labels[metal3v1.MachineLabel] != "true" {
			t.Errorf("%s: of a claim with a thousand finalizers there is %v", name, is.ObjectMeta)
		}
	}
}
