package remote

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/simulation"
)

// Whatever happens in whatever order: no source has two targets, nothing of others is touched, no target names Secrets
// that are not there, and one that had a host is not replaced; and once faults stop, each source has what it can have,
// what is deleted is gone, and nothing is written any more.
func TestSimulation(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(ctx, t)
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			w.act()
			w.check()
		}
		w.checkEnd()
		w.checkReleased()
	})
}

// checkWrite is what must hold for each write to the other cluster.
func (w *world) checkWrite(key simulation.Key, was, is client.Object) {
	for _, object := range []client.Object{was, is} {
		if object != nil && object.GetLabels()[metal3v1.OriginLabel] == "" {
			w.t.Fatalf("it wrote to %s, which is not its own", key)
		}
	}
	target, ok := is.(*metal3v1.HostClaim)
	if !ok {
		return
	}
	if ref := target.Spec.UserData; ref != nil {
		before, existed := was.(*metal3v1.HostClaim)
		fresh := !existed || before.Spec.UserData == nil
		name := types.NamespacedName{Namespace: target.Namespace, Name: ref.Name}
		if fresh && w.there.Get(simulation.Key{Kind: secretGK, NamespacedName: name}) == nil && w.Faulty == "" {
			w.t.Fatalf("%s names a Secret that is not there", key)
		}
	}
	if was == nil {
		for _, source := range w.sources() {
			if originKept(source) == target.Labels[metal3v1.OriginLabel] && hostclaim.LostForGood(source) {
				w.t.Fatalf("%s was created for a source that has lost its host", key)
			}
		}
	}
}

// checkProvisioned is what must hold when the other cluster begins to write an image to a host.
func (w *world) checkProvisioned(target *metal3v1.HostClaim) {
	if target.Spec.Image == nil || target.Spec.UserData == nil {
		return
	}
	if ref := target.Spec.UserData; ref.Namespace != "" {
		w.t.Fatalf("%s names a Secret of another namespace", describeClaim(target))
	}
}

// check is what must hold at every moment.
func (w *world) check() {
	targets := map[string]int{}
	for _, target := range w.targets() {
		origin := target.Labels[metal3v1.OriginLabel]
		if targets[origin]++; targets[origin] > 1 && !w.left[origin] {
			w.t.Fatalf("a source has two targets: %s", describeClaim(target))
		}
		if target.Spec.Kind != "baremetal" || target.Spec.Credentials != "" || len(target.Spec.Args) > 0 {
			w.t.Fatalf("a target has what is not for it: %+v", target.Spec)
		}
	}
	origins := map[string]bool{}
	for _, source := range w.sources() {
		origins[originKept(source)] = true
	}
	for origin := range targets {
		if !origins[origin] && !w.left[origin] {
			w.t.Fatalf("the target of a source that is gone is left over")
		}
	}
}

// settle has everybody do what there is to do, and reports whether that comes to an end.
func (w *world) settle() bool {
	for range 300 {
		before, moved := w.writes, false
		for _, i := range w.processes {
			if !i.claims.Settle(w.ctx, 5000) || !i.secrets.Settle(w.ctx, 5000) {
				return false
			}
			for i.hear(claimGK) || i.hear(secretGK) {
				moved = true
			}
		}
		for _, target := range w.targets() {
			moved = w.operate(target) || moved
		}
		for _, i := range w.processes {
			moved = moved || i.claims.Queued()+len(i.claims.Cache.Behind())+len(i.secrets.Cache.Behind()) > 0
		}
		if !moved && before == w.writes {
			return true
		}
	}
	return false
}

// checkEnd is what must hold when faults have stopped and everything has come to rest.
func (w *world) checkEnd() {
	w.Faulty, w.down = "", false
	w.wakeAll()
	if !w.settle() {
		for _, c := range append(w.sources(), w.targets()...) {
			w.t.Logf("%s %+v %+v", describeClaim(c), c.ObjectMeta, c.Spec)
		}
		h, th := w.here.Writes, w.there.Writes
		w.t.Fatalf("it does not come to rest: %v | %v", h[max(0, len(h)-10):], th[max(0, len(th)-10):])
	}
	w.check()
	for _, source := range w.sources() {
		if _, paused := source.Annotations[clusterv1.PausedAnnotation]; !paused || w.leaves() {
			w.checkSource(source)
		}
	}
	before := w.writes
	for i := range w.processes {
		w.start(i)
	}
	if !w.settle() || w.writes != before {
		w.t.Fatalf("%d writes at rest", w.writes-before)
	}
}

// leads returns where the credentials lead to, empty if nowhere.
func (w *world) leads() string {
	secret, ok := w.here.Get(w.here.KeyOf(simSecret("remote", ""))).(*corev1.Secret)
	if !ok || string(secret.Data["value"]) == "bad" {
		return ""
	}
	return string(secret.Data["value"])
}

func (w *world) checkSource(source *metal3v1.HostClaim) {
	to := w.leads()
	at := source.Status.Remote
	reachable := to != "" && (at == nil || at.Namespace == to)
	synced := hostclaim.ConditionOf(source, metal3v1.RemoteSyncedCondition)
	target := w.targetOf(source)
	switch {
	case !reachable:
		if synced.Status != "False" {
			w.t.Fatalf("%s says that it is in step, and leads to %q", describeClaim(source), to)
		}
		return
	case source.DeletionTimestamp != nil:
		w.t.Fatalf("%s is still there", describeClaim(source))
	case hostclaim.LostForGood(source):
		if target != nil {
			w.t.Fatalf("%s says that its target is gone", describeClaim(source))
		}
		return
	case target == nil:
		w.t.Fatalf("%s has no target", describeClaim(source))
	}
	complete := true
	var data *corev1.Secret
	if ref := source.Spec.UserData; ref != nil {
		data, complete = w.here.Get(w.here.KeyOf(simSecret(ref.Name, ""))).(*corev1.Secret)
		complete = complete && (ref.Namespace == "" || ref.Namespace == "a")
	}
	if (synced.Status == "True") != complete {
		w.t.Fatalf("%s has all its Secrets: %v", describeClaim(source), complete)
	}
	switch {
	case !equality.Semantic.DeepEqual(target.Spec.Online, source.Spec.Online) || target.Spec.FailureDomain != "":
		w.t.Fatalf("%s asks for %+v, and its target for %+v", describeClaim(source), source.Spec, target.Spec)
	case complete && !equality.Semantic.DeepEqual(source.Spec.Image, target.Spec.Image), complete && (data == nil) != (target.Spec.UserData == nil):
		w.t.Fatalf("%s asks for %+v, and its target for %+v", describeClaim(source), source.Spec, target.Spec)
	case source.Status.Ready != target.Status.Ready, hostclaim.ConditionOf(source, "Associated").Status != "True":
		w.t.Fatalf("%s does not tell what its target does", describeClaim(source))
	case source.Annotations["reboot.metal3.io"] != "" || hostclaim.Rebooting(target.Annotations):
		w.t.Fatalf("%s still asks for a reboot", describeClaim(source))
	}
	copied := w.there.Get(simulation.Key{Kind: secretGK, NamespacedName: types.NamespacedName{
		Namespace: to, Name: copyName(originKept(source), hostclaim.UserData),
	}})
	secret, ok := copied.(*corev1.Secret)
	if complete && (ok != (data != nil) || ok && string(secret.Data["value"]) != string(data.Data["value"])) {
		w.t.Fatalf("the copy of the Secret of %s is not like it", describeClaim(source))
	}
}

// targetOf returns the target of a source, nil if there is none.
func (w *world) targetOf(source *metal3v1.HostClaim) *metal3v1.HostClaim {
	for _, target := range w.targets() {
		if target.Labels[metal3v1.OriginLabel] == originKept(source) && (source.Status.Remote == nil || source.Status.Remote.Namespace == target.Namespace) {
			return target
		}
	}
	return nil
}

// checkReleased is what must hold when all sources are deleted and can be: they go, and leave nothing behind.
func (w *world) checkReleased() {
	for _, source := range w.sources() {
		delete(source.Annotations, clusterv1.PausedAnnotation)
		w.here.Put(source)
		w.here.Remove(w.here.KeyOf(source))
	}
	for _, to := range []string{"u1", "u2"} {
		w.kubeconfig(to)
		if !w.settle() {
			w.t.Fatal("it does not come to rest after the sources were deleted")
		}
	}
	if left := w.sources(); len(left) > 0 {
		w.t.Fatalf("%s is left", describeClaim(left[0]))
	}
	for _, object := range append(w.there.Objects(claimGK), w.there.Objects(secretGK)...) {
		if origin := object.GetLabels()[metal3v1.OriginLabel]; origin != "" && !w.left[origin] {
			w.t.Fatalf("%s is left in the other cluster", object.GetName())
		}
	}
	if secret := w.here.Get(w.here.KeyOf(simSecret("remote", ""))); secret != nil && len(secret.GetFinalizers()) > 0 {
		w.t.Fatal("the Secret with the kubeconfig is still held")
	}
}
