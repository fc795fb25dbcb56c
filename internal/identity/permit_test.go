package identity

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/test/simulation"
)

// broken is a cache that has stopped.
type broken struct{ client.Reader }

var errStopped = errors.New("stopped")

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errStopped
}

func TestPermits(t *testing.T) {
	server := simulation.NewServer(simScheme())
	server.Put(identitytest.Identity("infra"))
	for namespace, object := range map[string]func(metav1.ObjectMeta, infrav1.ClusterSpec) client.Object{
		"a": func(meta metav1.ObjectMeta, spec infrav1.ClusterSpec) client.Object {
			return &infrav1.OCICluster{ObjectMeta: meta, Spec: spec}
		},
		"b": func(meta metav1.ObjectMeta, spec infrav1.ClusterSpec) client.Object {
			return &infrav1.OCIManagedCluster{ObjectMeta: meta, Spec: spec}
		},
	} {
		ref := identitytest.Ref("id")
		ref.Namespace = "infra"
		server.Put(object(metav1.ObjectMeta{Namespace: namespace, Name: "net"}, infrav1.ClusterSpec{IdentityRef: ref}))
		server.Put(object(metav1.ObjectMeta{Namespace: namespace, Name: "bare"}, infrav1.ClusterSpec{}))
		server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	cache := server.NewCache(identityGK, clusterGK, managedGK, namespaceGK, secretGK)
	known := &Resolver{Cached: Readers{cache, cache}, Live: server.Client(nil), Scope: Scope{Policy: simPolicy}}
	stopped := &Resolver{Cached: Readers{broken{}, cache}, Live: server.Client(nil), Scope: Scope{Policy: simPolicy}}
	for name, tc := range map[string]struct {
		reason          string
		resolver        *Resolver
		group           string
		namespace, kind string
		infrastructure  string
		kindOf          outcome.Kind
		why             string
		err             error
	}{
		"Allowed":       {"the list has the namespace", known, identityv1.GroupName, "a", "OCICluster", "net", 0, "", nil},
		"Refused":       {"the list does not have it", known, identityv1.GroupName, "b", "OCIManagedCluster", "net", outcome.KindStall, "NamespaceNotAllowed", nil},
		"NoIdentity":    {"the principal of the process is for all", known, identityv1.GroupName, "b", "OCIManagedCluster", "bare", 0, "", nil},
		"Missing":       {"it cannot be decided yet", known, identityv1.GroupName, "a", "OCICluster", "none", outcome.KindWait, "IdentityNotEvaluated", nil},
		"NotOCI":        {"nobody decides", known, identityv1.GroupName, "b", "DockerCluster", "net", 0, "", nil},
		"OtherGroup":    {"it is no kind of CAPOCI", known, "example.com", "b", "OCIManagedCluster", "net", 0, "", nil},
		"None":          {"a cluster may have no infrastructure yet", known, "", "b", "", "", 0, "", nil},
		"NoResolver":    {"everything on OCI waits", nil, identityv1.GroupName, "a", "OCICluster", "net", outcome.KindWait, "IdentityNotEvaluated", nil},
		"NotOCINeither": {"and nothing else", nil, identityv1.GroupName, "a", "DockerCluster", "net", 0, "", nil},
		"Stopped":       {"an outage is no refusal", stopped, identityv1.GroupName, "a", "OCICluster", "net", 0, "", errStopped},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "prod"}}
			cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: tc.group, Kind: tc.kind, Name: tc.infrastructure}
			_, err := tc.resolver.Permits(t.Context(), cluster)
			problem, ok := errors.AsType[*outcome.Problem](err)
			switch {
			case tc.why == "" && !errors.Is(err, tc.err):
				t.Errorf("%s: got %v, want %v", tc.reason, err, tc.err)
			case tc.why != "" && (!ok || problem.Reason != tc.why || problem.Kind != tc.kindOf || problem.Message == ""):
				t.Errorf("%s: got %v, want %s", tc.reason, err, tc.why)
			}
		})
	}
}
