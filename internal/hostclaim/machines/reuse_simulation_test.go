package machines

import (
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/standin/capm3"
)

func (w *world) putCluster() {
	w.server.Put(&clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: simNamespace, Name: "cluster"},
		Spec:       clusterv1.ClusterSpec{Paused: new(w.Pick("paused", "yes", "no", "no", "no") == "yes")},
	})
}

// cluster returns the Cluster, nil if there is none, or if it is being deleted.
func (w *world) cluster() *clusterv1.Cluster {
	cluster, ok := w.server.Get(keyOf(clusterGK, "cluster")).(*clusterv1.Cluster)
	if !ok || cluster.DeletionTimestamp != nil {
		return nil
	}
	return cluster
}

// checkReuse is what must hold of kept pairs for each write.
func (w *world) checkReuse(verb string, was, is client.Object) {
	if claim, ok := was.(*metal3v1.HostClaim); ok && verb == "delete" && is == nil || is != nil && is.GetDeletionTimestamp() != nil && was != nil {
		if pair := (Pair{claim, w.getHost(was.GetName())}); claim != nil && claim.DeletionTimestamp == nil && pair.keeps(w.cluster()) {
			w.T.Fatalf("it gave back the host of %s, which is kept", claim.Name)
		}
	}
	before, ok := was.(*bmov1.BareMetalHost)
	after, ok2 := is.(*bmov1.BareMetalHost)
	if !ok || !ok2 || !done(before) || consumer(after) == "" {
		return
	}
	m := w.machine(consumer(after))
	switch claim := w.getClaim(after.Name); {
	case m == nil || m.DeletionTimestamp != nil:
		return // It went meanwhile.
	case m.Annotations[metal3v1.HostAnnotation] != "" && w.Faulty == "":
		w.T.Fatalf("Machine %s gets %s as well", describeMachine(m), after.Name)
	case claim == nil || claim.DeletionTimestamp != nil:
		return // It went meanwhile.
	case tagged(before) != group(m.Labels):
		w.T.Fatalf("%s was left for %s, and Machine %s gets it", after.Name, tagged(before), describeMachine(m))
	}
}

// pairOf returns what a Machine has.
func (w *world) pairOf(m *Machine) (claim *metal3v1.HostClaim, proxy *bmov1.BareMetalHost) {
	for _, name := range []string{"m1", "m2"} {
		if is := w.getClaim(name); is != nil && isOwner(m.UID, is) {
			if claim != nil {
				w.T.Fatalf("Machine %s has claims %s and %s", describeMachine(m), claim.Name, name)
			}
			claim, proxy = is, w.getHost(name)
		}
	}
	for _, name := range []string{"m1", "m2"} {
		if is := w.getHost(name); claim == nil && is != nil && isProxy(is) && consumes(m.Name, is) {
			proxy = is
		}
	}
	return claim, proxy
}

// checkLeft is what must hold of a claim and a proxy of a name: a Machine has them, or they are kept.
func (w *world) checkLeft(name string) {
	claim, proxy := w.getClaim(name), w.getHost(name)
	for _, each := range []string{"m1", "m2"} {
		m := w.machine(each)
		if m != nil && (claim != nil && isOwner(m.UID, claim) || claim == nil && proxy != nil && consumes(each, proxy)) {
			return
		}
	}
	if pair := (Pair{claim, proxy}); (claim != nil || proxy != nil) && !pair.keeps(w.cluster()) {
		w.T.Fatalf("no Machine has %s, and there is %v, %v", name, claim, proxy)
	}
}

// usable reports whether a host is kept for a Machine that has had none.
func (w *world) usable(m *Machine) bool {
	for _, name := range []string{"m1", "m2"} {
		claim, proxy := w.getClaim(name), w.getHost(name)
		if claim != nil && proxy != nil && m.Annotations[metal3v1.HostAnnotation] == "" && tagged(proxy) == group(m.Labels) &&
			(Pair{claim, proxy}).keeps(w.cluster()) {
			return true
		}
	}
	return false
}

func (w *world) createMachine(name string) {
	m := capm3.NewMachine(simNamespace, name)
	if w.server.Get(w.server.KeyOf(m)) != nil {
		return
	}
	m.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "cluster", clusterv1.MachineDeploymentNameLabel: "d"})
	m.SetAnnotations(map[string]string{metal3v1.MachineKindAnnotation: metal3v1.KindBareMetal})
	m.Object["spec"] = map[string]any{"hostSelector": map[string]any{"matchLabels": map[string]any{metal3v1.MachineLabel: "true"}}}
	w.server.Put(m)
}

// furnish has a Machine run, and be deleted, with a host and perhaps none for the next one.
func (w *world) furnish() {
	if w.Pick("hosts", "one", "two") == "one" {
		w.servers = w.servers[:1]
	}
	w.createMachine("m1")
	w.settle()
	w.server.Remove(keyOf(machineGK, "m1"))
}

// roll has a Machine come, or go.
func (w *world) roll() {
	name := w.Pick("machine", "m1", "m2")
	if w.Pick("rolls", "create", "create", "delete") == "create" {
		w.createMachine(name)
		return
	}
	w.server.Remove(keyOf(machineGK, name))
}
