package baremetal

import (
	"slices"
	"strings"
	"testing"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/simulation"
)

// Whatever happens in whatever order: no host has two claims, no claim two hosts, nothing is written to a host of
// somebody else, none is given away before it is clean; and once faults stop, every claim has what it can have, and
// nothing is written any more.
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

// checkWrite is what must hold for each write to a host.
func (w *world) checkWrite(was, is client.Object) {
	w.checkSecret(was, is)
	w.checkDisk(was, is)
	before, ok := was.(*bmov1.BareMetalHost)
	after, ok2 := is.(*bmov1.BareMetalHost)
	if !ok || !ok2 || equality.Semantic.DeepEqual(before, after) {
		return
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) || !equality.Semantic.DeepEqual(before.Labels, after.Labels) {
		w.t.Fatalf("it changed more than it may of %s", describeHost(before))
	}
	if before.Spec.ConsumerRef == nil {
		w.checkTaken(before, after)
		return
	}
	if _, _, ours := consumerOf(before); !ours {
		w.checkForeign(before, after)
		return
	}
	if ref := after.Spec.ConsumerRef; ref != nil {
		if was := before.Spec.ConsumerRef.UID; ref.UID != was && was != "" {
			if before.Annotations[metal3v1.AdoptAnnotation] != string(was) || w.exists(was) || !w.exists(ref.UID) {
				w.t.Fatalf("it took %s from another claim", describeHost(before))
			}
		}
		w.checkLeft(before, after)
		return
	}
	if copies := w.copies(before); len(copies) > 0 {
		w.t.Fatalf("it gave away %s, beside which there is %v", describeHost(before), copies)
	}
	state := before.Status.Provisioning.State
	if state != bmov1.StateAvailable || before.Spec.Image != nil || after.Spec.Image != nil || after.Spec.UserData != nil {
		w.t.Fatalf("it gave away %s, which is not clean", describeHost(before))
	}
	if !after.Spec.Online {
		w.t.Fatalf("it gave back %s other than its administrator had it", describeHost(after))
	}
}

// checkForeign is what must hold of a host that another consumer has taken: nothing is written but that what was the
// claim's is taken off it.
func (w *world) checkForeign(before, after *bmov1.BareMetalHost) {
	if left := disowned(before); left == nil || !equality.Semantic.DeepEqual(left.Spec, after.Spec) {
		w.t.Fatalf("it wrote to %s, which is not its own", describeHost(before))
	}
}

// exists reports whether there is a claim of a UID, or was one when the run read it.
func (w *world) exists(uid types.UID) bool {
	return slices.ContainsFunc(w.claims(), func(claim *metal3v1.HostClaim) bool { return claim.UID == uid })
}

// checkLeft is what must hold of a host that stays whose it is: if its claim is gone, and was not deleted, nothing is
// taken off it, unless an administrator says so.
func (w *world) checkLeft(before, after *bmov1.BareMetalHost) {
	uid := before.Spec.ConsumerRef.UID
	if w.vanished[uid] && before.Annotations[metal3v1.ReleaseAnnotation] != string(uid) &&
		!equality.Semantic.DeepEqual(before.Spec.Image, after.Spec.Image) {
		w.t.Fatalf("it took off %s what is on it, and its claim was not deleted", describeHost(before))
	}
}

// checkSecret is what must hold for each write to a Secret.
func (w *world) checkSecret(was, is client.Object) {
	for _, object := range []client.Object{was, is} {
		secret, ok := object.(*corev1.Secret)
		if ok && (secret.Labels[metal3v1.ClaimUIDLabel] == "" || secret.Namespace != "infra") {
			w.t.Fatalf("it wrote to Secret %s/%s, which is not its own", secret.Namespace, secret.Name)
		}
	}
}

// copies returns the names of the copies of Secrets beside a host.
func (w *world) copies(host *bmov1.BareMetalHost) []string {
	var names []string
	for _, object := range w.server.Objects(secretGK) {
		uid := object.GetLabels()[metal3v1.ClaimUIDLabel]
		if uid != "" && !w.forced[types.UID(uid)] && strings.HasPrefix(object.GetName(), host.Name+"-hc-") {
			names = append(names, object.GetName())
		}
	}
	return names
}

// checkProvisioned is what must hold when Metal3 begins to write an image to a host: all Secrets that go with it are
// there, and they are of the namespace of the claim.
func (w *world) checkProvisioned(host *bmov1.BareMetalHost) {
	key, uid, ok := consumerOf(host)
	if !ok {
		return
	}
	w.booted[uid] = w.dataOf(host)
	for _, ref := range []*corev1.SecretReference{host.Spec.UserData, host.Spec.MetaData} {
		if ref == nil {
			continue
		}
		secret, ok := w.server.Get(simulation.Key{Kind: secretGK, NamespacedName: types.NamespacedName{
			Namespace: ref.Namespace, Name: ref.Name,
		}}).(*corev1.Secret)
		if !ok {
			if !w.forced[uid] {
				w.t.Fatalf("%s is provisioned without %s", describeHost(host), ref.Name)
			}
			continue
		}
		if of := string(secret.Data["of"]); ref.Namespace != host.Namespace || of != key.Namespace {
			w.t.Fatalf("%s of %s gets a Secret of namespace %s", describeHost(host), key, of)
		}
	}
}

// checkTaken is what must hold for a host that is taken.
func (w *world) checkTaken(before, after *bmov1.BareMetalHost) {
	key, uid, ours := consumerOf(after)
	claim, exists := w.server.Get(simulation.Key{Kind: claimGK, NamespacedName: key}).(*metal3v1.HostClaim)
	switch {
	case !ours:
		w.t.Fatalf("it wrote to %s, which is nobody's", describeHost(before))
	case !hostclaim.Free(before):
		w.t.Fatalf("it took %s, which is not free", describeHost(before))
	case exists && claim.UID == uid && !held(claim) && !w.forced[uid]:
		w.t.Fatalf("it took %s for a claim that is not held", describeHost(before))
	case w.lost[uid] && !w.forged[uid]:
		w.t.Fatalf("it took %s for a claim that has lost its host while that was in use", describeHost(before))
	case !exists:
		w.forced[uid] = true // It went between the look at the claim and the write to the host.
	}
	if in := before.Annotations[metal3v1.NamespacesKey]; in != "" && in != "*" && in != key.Namespace {
		w.t.Fatalf("it took %s, which is open to namespace %s, for one of %s", describeHost(before), in, key.Namespace)
	}
}

// check is what must hold at every moment.
func (w *world) check() {
	claims := map[types.UID]bool{}
	for _, claim := range w.claims() {
		claims[claim.UID] = true
	}
	if w.rebooted > w.asked {
		w.t.Fatalf("%d reboots were asked for, and there were %d", w.asked, w.rebooted)
	}
	hosts := map[types.UID]int{}
	for _, host := range w.hosts() {
		if _, uid, ok := consumerOf(host); ok {
			w.had[uid] = true
			if hosts[uid]++; hosts[uid] > 1 {
				w.t.Fatalf("a claim has two hosts: %s", describeHost(host))
			}
			if !claims[uid] && !w.forced[uid] {
				w.t.Fatalf("%s is left over by a claim that is gone", describeHost(host))
			}
		}
	}
}

// settle has everybody do what there is to do, and reports whether that comes to an end.
func (w *world) settle() bool {
	for range 200 {
		before := w.writes
		for i := range w.processes {
			if !w.processes[i].Settle(w.ctx, 5000) {
				return false
			}
		}
		moved := false
		for _, host := range w.hosts() {
			moved = w.metal3(host) || moved
		}
		behind := false
		for _, process := range w.processes {
			behind = behind || len(process.Cache.Behind()) > 0
		}
		if !moved && !behind && before == w.writes && !later(w.clock, w.processes...) {
			return true
		}
	}
	return false
}

// later has time pass until claims do not leave hosts to others any more. It reports false if none does.
func later(clock *clocktesting.FakePassiveClock, processes ...*simulation.Process) bool {
	waits := false
	for _, process := range processes {
		waits = process.Later() > 0 || waits
	}
	clock.SetTime(clock.Now().Add(patience))
	return waits
}

// checkEnd is what must hold when faults have stopped and everything has come to rest.
func (w *world) checkEnd() {
	w.Faulty = ""
	if !w.settle() {
		w.t.Fatal("it does not come to rest")
	}
	w.check()
	for w.administer("adopt", "release") {
		if !w.settle() {
			w.t.Fatal("it does not come to rest once administrators have decided")
		}
	}
	w.check()
	for _, host := range w.hosts() {
		if _, uid, ok := consumerOf(host); ok && w.forced[uid] {
			w.t.Fatalf("%s is not released, and its claim is gone", describeHost(host))
		}
	}
	for _, claim := range w.claims() {
		pauses := hostclaim.IsPaused
		if w.namespace(claim.Namespace).GetDeletionTimestamp() != nil {
			pauses = hostclaim.IsPausedByOthers
		}
		if stopped, err := pauses(w.ctx, w.server.Client(nil), claim); err == nil && !stopped {
			w.checkClaim(claim)
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

// checkReleased is what must hold when all claims are deleted: they go, and leave nothing behind.
func (w *world) checkReleased() {
	for _, claim := range w.claims() {
		delete(claim.Annotations, clusterv1.PausedAnnotation)
		delete(claim.Labels, clusterv1.ClusterNameLabel)
		w.server.Put(claim)
		w.server.Remove(w.server.KeyOf(claim))
	}
	if !w.settle() {
		w.t.Fatal("it does not come to rest after the claims were deleted")
	}
	if left := w.claims(); len(left) > 0 {
		w.t.Fatalf("%d claims are left", len(left))
	}
	for _, host := range w.hosts() {
		if _, _, ok := consumerOf(host); ok || len(w.copies(host)) > 0 {
			w.t.Fatalf("%s is left, with %v", describeHost(host), w.copies(host))
		}
	}
}

func (w *world) checkClaim(claim *metal3v1.HostClaim) {
	name := claim.Namespace + "/" + claim.Name
	if claim.DeletionTimestamp != nil {
		w.t.Fatalf("%s is still there", name)
	}
	var mine *bmov1.BareMetalHost
	var fit []string
	q := hostclaim.Question{Claim: claim, Requester: w.requester(claim.Namespace), Policies: w.policies()}
	for _, host := range w.hosts() {
		if ownedBy(host, claim) {
			mine = host
		}
		if hostclaim.Check(q, host) == "" {
			fit = append(fit, host.Name)
		}
	}
	switch {
	case mine != nil:
		w.checkBound(claim, mine)
	case claim.Status.BareMetalHost != nil || claim.Status.PendingHost != nil || claim.Labels[metal3v1.HostLabel] != "":
		w.t.Fatalf("%s says that it has a host, and has none: %+v", name, claim.Status)
	case hostclaim.LostForGood(claim) && !w.had[claim.UID]:
		w.t.Fatalf("%s has lost a host, and never had one: %+v", name, claim.Status)
	case hostclaim.LostForGood(claim):
	case len(fit) > 0:
		w.t.Fatalf("%s waits, and could have %v: %+v", name, fit, claim.Status.Conditions)
	}
}

// checkBound is what must hold for a claim that has a host.
func (w *world) checkBound(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost) {
	name := claim.Namespace + "/" + claim.Name
	if ref := claim.Status.BareMetalHost; ref == nil || ref.Name != host.Name || claim.Labels[metal3v1.HostLabel] != "infra."+host.Name {
		w.t.Fatalf("%s has %s and says %+v, %v", name, describeHost(host), claim.Status.BareMetalHost, claim.Labels)
	}
	w.checkSynchronized(claim, host)
	why := hostclaim.Withdrawn(host, w.policies(), w.requester(claim.Namespace))
	if said := hostclaim.ConditionOf(claim, "Associated"); (said.Reason == metal3v1.PermissionWithdrawnReason) != (why != "") {
		w.t.Fatalf("%s may have %s (%q), and says %+v", name, describeHost(host), why, said)
	}
	booted, known := w.booted[claim.UID]
	said, synced := hostclaim.ConditionOf(claim, "Provisioned"), hostclaim.ConditionOf(claim, "Synchronized")
	if is := w.dataOf(host); known && synced.Status == "True" && said.Reason == metal3v1.ProvisionedReason && booted != is {
		w.t.Fatalf("%s was provisioned with %q, is to have %q, and says %+v", describeHost(host), booted, is, said)
	}
}

// dataOf is what Metal3 reads when it provisions a host.
func (w *world) dataOf(host *bmov1.BareMetalHost) string {
	var data []string
	for _, ref := range []*corev1.SecretReference{host.Spec.UserData, host.Spec.MetaData} {
		text := ""
		if ref != nil {
			object := w.server.Get(simulation.Key{Kind: secretGK, NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
			if secret, ok := object.(*corev1.Secret); ok {
				text = string(secret.Data["value"])
			}
		}
		data = append(data, text)
	}
	return strings.Join(data, ", ")
}

func (w *world) requester(namespace string) hostclaim.Requester {
	r := hostclaim.Requester{Name: namespace}
	if found := w.namespace(namespace); found != nil {
		r.Labels = found.GetLabels()
	}
	return r
}

// checkCopies is what must hold of the Secrets of a claim. It reports whether the host can have them all.
func (w *world) checkCopies(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost) bool {
	name := claim.Namespace + "/" + claim.Name
	complete := true
	for ref, got := range map[*corev1.SecretReference]*corev1.SecretReference{
		claim.Spec.UserData: host.Spec.UserData, claim.Spec.MetaData: host.Spec.MetaData,
	} {
		if ref == nil {
			continue
		}
		source, ok := w.server.Get(simulation.Key{Kind: secretGK, NamespacedName: types.NamespacedName{
			Namespace: claim.Namespace, Name: ref.Name,
		}}).(*corev1.Secret)
		foreign := w.server.Get(simulation.Key{Kind: secretGK, NamespacedName: copyOf(keyOf(host), hostclaim.MetaData)})
		blocked := ref == claim.Spec.MetaData && foreign != nil && foreign.GetLabels()[metal3v1.ClaimUIDLabel] == ""
		if !ok || ref.Namespace != "" && ref.Namespace != claim.Namespace || blocked {
			complete = false
			continue
		}
		if got == nil {
			continue
		}
		copied, ok := w.server.Get(simulation.Key{Kind: secretGK, NamespacedName: types.NamespacedName{
			Namespace: got.Namespace, Name: got.Name,
		}}).(*corev1.Secret)
		if !ok || string(copied.Data["value"]) != string(source.Data["value"]) {
			w.t.Fatalf("the copy of Secret %s of %s is not like it", source.Name, name)
		}
	}
	return complete
}

// checkSynchronized is what must hold of what a claim asks for and its host.
func (w *world) checkSynchronized(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost) {
	name := claim.Namespace + "/" + claim.Name
	complete := w.checkCopies(claim, host)
	synced := hostclaim.ConditionOf(claim, metal3v1.SynchronizedCondition)
	if (synced.Status == "True") != complete {
		w.t.Fatalf("%s has all its Secrets: %v, and says %+v", name, complete, synced)
	}
	wanted := claim.Spec.Image != nil
	switch {
	case host.Spec.Online != hostclaim.IsOn(claim):
		w.t.Fatalf("%s is not online as its claim says", describeHost(host))
	case complete && wanted != (host.Spec.Image != nil), complete && wanted && host.Spec.Image.URL != claim.Spec.Image.URL:
		w.t.Fatalf("%s has %s, and asks for %+v", name, describeHost(host), claim.Spec.Image)
	case complete && (claim.Spec.UserData == nil) != (host.Spec.UserData == nil):
		w.t.Fatalf("%s has user data %v and asks for %v", name, host.Spec.UserData, claim.Spec.UserData)
	case claim.Status.Ready != (wanted && host.Status.Provisioning.State == bmov1.StateProvisioned &&
		host.Status.Provisioning.Image.URL == claim.Spec.Image.URL):
		w.t.Fatalf("%s says ready: %v, and has %s", name, claim.Status.Ready, describeHost(host))
	}
	if _, asks := claim.Annotations["reboot.metal3.io"]; asks || host.Annotations[metal3v1.RebootingAnnotation] != "" {
		w.t.Fatalf("%s still asks for a reboot", name)
	}
	if _, hold := claim.Annotations["reboot.metal3.io/hold"]; hold != (host.Annotations["reboot.metal3.io/hold"] == "" &&
		host.Annotations[metal3v1.HoldsAnnotation] != "") {
		w.t.Fatalf("%s keeps its host off: %v, and the host has %v", name, hold, host.Annotations)
	}
	hardware := w.server.Get(simulation.Key{Kind: hardwareGK, NamespacedName: keyOf(host)}) != nil
	if hardware != (claim.Status.HardwareData != nil) {
		w.t.Fatalf("%s says that there are data of its hardware: %v", name, !hardware)
	}
}

func (w *world) policies() hostclaim.Policies {
	policies := hostclaim.Policies{}
	for _, object := range w.server.Objects(policyGK) {
		if policy, ok := object.(*metal3v1.HostDeployPolicy); ok {
			policies[policy.Namespace] = append(policies[policy.Namespace], *policy)
		}
	}
	return policies
}
