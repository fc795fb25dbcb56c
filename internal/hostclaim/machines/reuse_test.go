package machines

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// rolled returns a Machine of a deployment.
func rolled(name string, change ...func(*Machine)) *Machine {
	return machine(append([]func(*Machine){func(m *Machine) {
		m.Name, m.UID = name, types.UID("uid-"+name)
		m.Labels["cluster.x-k8s.io/deployment-name"] = "d"
	}}, change...)...)
}

func simCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c", UID: "uid-k"}}
}

// keptPair returns a pair that the provider has left for the next Machine of deployment d. Its Machine m1 is gone.
func keptPair(change ...func(*metal3v1.HostClaim, *bmov1.BareMetalHost)) Pair {
	m1 := rolled("m1")
	claim, proxy := claimOf(m1, bound()), proxyOf(m1)
	claim.OwnerReferences = append(claim.OwnerReferences, ownerCluster(simCluster()))
	proxy.OwnerReferences, proxy.Spec.ConsumerRef = []metav1.OwnerReference{ownerCluster(simCluster())}, nil
	proxy.Labels["infrastructure.cluster.x-k8s.io/node-reuse"] = "md-d"
	for _, each := range change {
		each(claim, proxy)
	}
	return Pair{claim, proxy}
}

// reuseRows are situations of a Machine, or of a pair without one, and what follows.
func reuseRows() map[string]decideRow {
	const takes, creates = "giving BareMetalHost team-a/m1 to Metal3Machine m2", "creating HostClaim team-a/m2"
	ended := []string{"deleting HostClaim team-a/m1", "deleting BareMetalHost team-a/m1"}
	next := func(m *Machine, pairs ...Pair) Observation {
		return Observation{Machine: m, Cluster: simCluster(), Kept: pairs}
	}
	alone := func(p Pair, change ...func(*Observation)) Observation {
		o := Observation{Gone: true, Claim: p.Claim, Proxy: p.Proxy, Cluster: simCluster()}
		for _, each := range change {
			each(&o)
		}
		return o
	}
	leaving := func(change ...func(*Observation)) Observation {
		m := rolled("m1", deleting)
		o := Observation{Machine: m, Cluster: simCluster(), Proxy: proxyOf(m)}
		o.Claim = claimOf(m, bound())
		o.Claim.Spec = wanted(o)
		o.Claim.Annotations = map[string]string{"hostclaims.metal3.io/stand-in": "uid-h"}
		for _, each := range change {
			each(&o)
		}
		return o
	}
	own := func(object func(*Observation) metav1.Object) func(*Observation) {
		return func(o *Observation) {
			is := object(o)
			is.SetOwnerReferences(append(is.GetOwnerReferences(), ownerCluster(simCluster())))
		}
	}
	ownClaim := own(func(o *Observation) metav1.Object { return o.Claim })
	ownProxy := own(func(o *Observation) metav1.Object { return o.Proxy })
	ofM2 := func(change ...func(*Observation)) Observation {
		o := next(rolled("m2"))
		p := keptPair()
		o.Claim, o.Proxy, o.Gone = p.Claim, p.Proxy, true
		o.Proxy.OwnerReferences, o.Proxy.Spec.ConsumerRef = owners(o.Proxy, o.Machine), consumerRef(o.Machine)
		delete(o.Proxy.Labels, "infrastructure.cluster.x-k8s.io/node-reuse")
		for _, each := range change {
			each(&o)
		}
		return o
	}
	waiting := func(conditions map[string]string, change func(*metal3v1.HostClaim)) Observation {
		o := next(rolled("m2"), keptPair())
		o.Claim = claimOf(o.Machine, conditions)
		if change != nil {
			change(o.Claim)
		}
		return o
	}
	asking := func(change func(*Machine)) Observation {
		o := next(rolled("m2", change), keptPair())
		o.Claim = claimOf(o.Machine, map[string]string{"Associated": "NoBareMetalHost"})
		return o
	}
	selects := func(kind string) Observation {
		return asking(func(m *Machine) { m.Selector.MatchLabels = map[string]string{"infra-kind": kind} })
	}
	return map[string]decideRow{
		// The Machine goes.
		"Leaving": {reason: "the Cluster owns both before the provider learns that its host is empty", o: leaving(),
			want: []string{"having Cluster c own HostClaim team-a/m1", "having Cluster c own BareMetalHost team-a/m1"}},
		"LeavingHalfDone": {reason: "the process has ended in between", o: leaving(ownClaim), want: []string{"having Cluster c own BareMetalHost team-a/m1"}},
		"LeavingOwned":    {reason: "now it may learn that", o: leaving(ownClaim, ownProxy), want: []string{"telling of the host in BareMetalHost team-a/m1"}},
		"LeavingWithItsCluster": {reason: "nothing is kept for a Cluster that goes", o: leaving(func(o *Observation) { o.Cluster = nil }),
			want: []string{"telling of the host in BareMetalHost team-a/m1"}},
		"LeavingUntagged": {reason: "its template has no nodeReuse", o: leaving(ownClaim, ownProxy, func(o *Observation) { o.Proxy.Spec.ConsumerRef = nil }), want: ended},
		"LeavingTagged":   {reason: "its template has", o: leaving(ownClaim, ownProxy, func(o *Observation) { o.Proxy = keptPair().Proxy })},
		"LeavingTaggedUnowned": {reason: "the cache of the provider was old", want: []string{"having Cluster c own BareMetalHost team-a/m1"},
			o: leaving(ownClaim, func(o *Observation) { o.Proxy = keptPair().Proxy; o.Proxy.OwnerReferences = nil })},

		"LeavingTaggedEarly": {reason: "the provider had no reason to wait", want: []string{"having Cluster c own HostClaim team-a/m1", "having Cluster c own BareMetalHost team-a/m1"},
			o: leaving(func(o *Observation) { o.Proxy = keptPair().Proxy; o.Proxy.OwnerReferences = nil })},
		"LeavingWithoutProxy": {reason: "nothing can be tagged", o: leaving(func(o *Observation) { o.Proxy = nil; o.Claim.Spec = wanted(*o) })},

		// No Machine has the pair.
		"Kept": {reason: "it costs nothing", o: alone(keptPair())},
		"KeptFor114": {reason: "CAPM3 1.14 has the Cluster be its consumer", o: alone(keptPair(func(_ *metal3v1.HostClaim, h *bmov1.BareMetalHost) {
			h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Cluster", Name: "c"}
		}))},
		"KeptUntagged":   {reason: "a tag that is taken away ends it", o: alone(keptPair(func(_ *metal3v1.HostClaim, h *bmov1.BareMetalHost) { delete(h.Labels, metal3v1.NodeReuseLabel) })), want: ended},
		"KeptNoCluster":  {reason: "the tag ends with its Cluster", o: alone(keptPair(), func(o *Observation) { o.Cluster = nil }), want: ended},
		"KeptForAnother": {reason: "a Cluster of that name is not that one", o: alone(keptPair(), func(o *Observation) { o.Cluster.UID = "other" }), want: ended},
		"KeptUnknown":    {reason: "a Machine that the cache does not have may have it", o: alone(keptPair(), func(o *Observation) { o.Gone, o.Cluster = false, nil })},
		"KeptPaused":     {reason: "paused is paused", o: alone(keptPair(), func(o *Observation) { o.Paused, o.Cluster = true, nil })},
		"KeptNotOwned":   {reason: "nothing says for how long", o: alone(keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) { c.OwnerReferences = c.OwnerReferences[:1] })), want: ended},
		"KeptLost":       {reason: "there is no host to keep", o: alone(keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) { *c = *lost(c) })), want: ended},
		"KeptHostGone": {reason: "it would keep another one", o: alone(keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) {
			c.Status.Conditions = []metav1.Condition{{Type: "Associated", Status: "False", Reason: "NoBareMetalHost"}}
		})), want: ended},
		"KeptMoved": {reason: "its status comes", o: alone(keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) { c.Status = metal3v1.HostClaimStatus{} }))},
		"KeptUnhealthy": {reason: "nobody is to get it", o: alone(keptPair(func(c *metal3v1.HostClaim, h *bmov1.BareMetalHost) {
			c.Annotations, h.Annotations["capm3.metal3.io/unhealthy"] = map[string]string{"capm3.metal3.io/unhealthy": ""}, ""
		})), want: ended},
		"KeptClaimGone":   {reason: "its user has given the host back", o: alone(Pair{Proxy: keptPair().Proxy}), want: ended[1:]},
		"KeptClaimGoing":  {reason: "its user gives the host back", o: alone(keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) { c.DeletionTimestamp = new(metav1.Now()) })), want: ended[1:]},
		"KeptProxyGone":   {reason: "the tag was on it", o: alone(Pair{Claim: keptPair().Claim}), want: ended[:1]},
		"KeptRestored":    {reason: "only its owner says whose the claim is", o: alone(Pair{Proxy: keptPair(func(_ *metal3v1.HostClaim, h *bmov1.BareMetalHost) { h.OwnerReferences = nil }).Proxy}, func(o *Observation) { o.Ownerless = true })},
		"UsedByAnother":   {reason: "its own request is for it", o: func() Observation { o := ofM2(); o.Machine, o.Gone = nil, false; return o }()},
		"UsedByNobodyNow": {reason: "that one is gone, and no provider has tagged it", o: func() Observation { o := ofM2(); o.Machine = nil; return o }(), want: ended},

		// The next Machine comes.
		"Next":             {reason: "it gets the host", o: next(rolled("m2"), keptPair()), want: []string{takes}},
		"NextOfItsDomain":  {reason: "as for any host", o: next(rolled("m2", func(m *Machine) { m.FailureDomain = "z" }), keptPair(), other("m0", "z")), want: []string{"giving BareMetalHost team-a/m0 to Metal3Machine m2"}},
		"NextOfAnother":    {reason: "it was left for another one", o: next(rolled("m2", func(m *Machine) { m.Labels["cluster.x-k8s.io/deployment-name"] = "e" }), keptPair()), want: []string{creates}},
		"NextControlPlane": {reason: "control planes have other tags", o: next(rolled("m2", func(m *Machine) { m.Labels["cluster.x-k8s.io/control-plane-name"] = "d" }), keptPair()), want: []string{creates}},
		"NextOfCluster": {reason: "another Cluster may have a deployment of that name", o: next(rolled("m2"), keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) {
			c.Labels["cluster.x-k8s.io/cluster-name"] = "other"
		})), want: []string{creates}},
		"NextPaused":  {reason: "paused is paused", o: func() Observation { o := next(rolled("m2"), keptPair()); o.Paused = true; return o }()},
		"NextHadHost": {reason: "it would run twice", o: next(rolled("m2", func(m *Machine) { m.Annotations = map[string]string{"metal3.io/BareMetalHost": "team-a/m2"} }), keptPair()), problem: "had a host"},
		"NextUnhealthy": {reason: "nobody is to get it", o: next(rolled("m2"), keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) {
			c.Annotations = map[string]string{"capi.metal3.io/unhealthy": ""}
		})), want: []string{creates}},
		"NextSelects": {reason: "it asks for another host", want: []string{creates},
			o: next(rolled("m2", func(m *Machine) { m.Selector.MatchLabels = map[string]string{"infra-kind": "large"} }), keptPair())},
		"NextKind":        {reason: "it asks for another host", want: []string{creates}, o: next(rolled("m2", func(m *Machine) { m.Kind = "kubevirt" }), keptPair())},
		"NextCredentials": {reason: "in another cluster", want: []string{creates}, o: next(rolled("m2", func(m *Machine) { m.Credentials = "k" }), keptPair())},
		"NextArgs": {reason: "it asks for another host", want: []string{creates},
			o: next(rolled("m2", func(m *Machine) { m.Args = map[string]metal3v1.Argument{"a": "b"} }), keptPair())},
		"NextOfItsName": {reason: "a name can come again", o: func() Observation {
			o := next(rolled("m1", func(m *Machine) { m.UID = "new" }), keptPair())
			o.Claim, o.Proxy = o.Kept[0].Claim, o.Kept[0].Proxy
			return o
		}(),
			want: []string{"giving BareMetalHost team-a/m1 to Metal3Machine m1"}},
		"NextOfANameInUse": {reason: "its claim would have the name of another", problem: "earlier", o: func() Observation {
			o := ofM2()
			o.Machine, o.Gone = rolled("m1", func(m *Machine) { m.UID = "new" }), false
			return o
		}()},

		// It waits for a host already.
		"Waits":          {reason: "its own claim would keep it from that host", o: waiting(map[string]string{"Associated": "NoBareMetalHost"}, nil), want: []string{"deleting HostClaim team-a/m2"}},
		"WaitsSelects":   {reason: "it asks for another host", problem: "another hostSelector", o: selects("large")},
		"WaitsKind":      {reason: "it asks for another host", problem: "another kind", o: asking(func(m *Machine) { m.Kind = "kubevirt" })},
		"WaitsArgs":      {reason: "it asks for another host", problem: "another args", o: asking(func(m *Machine) { m.Args = map[string]metal3v1.Argument{"a": "b"} })},
		"WaitsElsewhere": {reason: "credentials lead to another cluster", problem: "another kind", o: asking(func(m *Machine) { m.Credentials = "k" })},
		"WaitsGoing":     {reason: "the claim has to be gone first", o: waiting(map[string]string{"Associated": "NoBareMetalHost"}, func(c *metal3v1.HostClaim) { c.DeletionTimestamp = new(metav1.Now()) })},
		"WaitsNoMore":    {reason: "it is about to take a host", o: waiting(map[string]string{"Associated": "Binding"}, func(c *metal3v1.HostClaim) { c.Status.PendingHost = &metal3v1.ObjectReference{} })},
		"WaitsBound":     {reason: "it has one", o: waiting(bound(), nil), want: []string{"creating BareMetalHost team-a/m2"}},
		"WaitsDispute":   {reason: "an administrator decides which one", o: waiting(map[string]string{"Associated": "AdoptionRequired"}, nil)},

		// It has the proxy, and not the claim.
		"HalfDone":        {reason: "the process has ended in between", o: ofM2(), want: []string{"giving HostClaim team-a/m1 to Metal3Machine m2"}},
		"HalfDoneInUse":   {reason: "another Machine has the claim", problem: "earlier", o: ofM2(func(o *Observation) { o.Gone = false })},
		"HalfDoneForged":  {reason: "a consumer alone says nothing", problem: "earlier", o: ofM2(func(o *Observation) { o.Proxy.OwnerReferences = nil })},
		"HalfDoneForgedC": {reason: "that claim was never kept", problem: "earlier", o: ofM2(func(o *Observation) { o.Claim.OwnerReferences = o.Claim.OwnerReferences[:1] })},

		// It has both, under the name of m1.
		"HasBoth": {reason: "the rest is as ever", want: []string{"telling of the host in BareMetalHost team-a/m1"}, o: ofM2(func(o *Observation) {
			o.Claim.OwnerReferences = owners(o.Claim, o.Machine)
			o.Claim.Spec, o.Claim.Annotations = wanted(*o), map[string]string{"hostclaims.metal3.io/stand-in": "uid-h"}
		})},
		"HasClaimAlone": {reason: "a proxy that was deleted by mistake comes again, under its name", want: []string{"creating BareMetalHost team-a/m1"}, o: ofM2(func(o *Observation) {
			o.Claim.OwnerReferences, o.Proxy = owners(o.Claim, o.Machine), nil
			o.Claim.Spec = wanted(*o)
		})},
		"HasTwo": {reason: "a Machine has one claim", want: append([]string{"telling of the host in BareMetalHost team-a/m1"}, "deleting HostClaim team-a/m2"), o: ofM2(func(o *Observation) {
			o.Claim.OwnerReferences = owners(o.Claim, o.Machine)
			o.Claim.Spec, o.Claim.Annotations = wanted(*o), map[string]string{"hostclaims.metal3.io/stand-in": "uid-h"}
			o.Rest = []Observation{{Gone: true, Claim: claimOf(o.Machine, nil)}}
		})},
	}
}

func TestDecideOnReuse(t *testing.T) {
	for name, tc := range reuseRows() {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.o)
			var got []string
			for _, each := range d.Actions {
				got = append(got, each.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if (tc.problem == "") != (d.Problem == "") || !strings.Contains(d.Problem, tc.problem) {
				t.Errorf("got problem %q, want %q", d.Problem, tc.problem)
			}
		})
	}
}

// lost returns a claim that has lost its host while that was in use.
func lost(claim *metal3v1.HostClaim) *metal3v1.HostClaim {
	after := claim.DeepCopy()
	after.Annotations = map[string]string{metal3v1.LostHostAnnotation: "infra/h"}
	after.Status.Conditions = []metav1.Condition{{Type: "Associated", Status: "False", Reason: "HostLost"}}
	return after
}

// other returns a kept pair of another name and failure domain.
func other(name, domain string) Pair {
	return keptPair(func(c *metal3v1.HostClaim, h *bmov1.BareMetalHost) {
		c.Name, h.Name, c.Spec.FailureDomain = name, name, domain
	})
}

// What is on the disks is kept if the provider says so, until it says otherwise.
func TestTheClaimOfAMachineKeepsTheDisks(t *testing.T) {
	o := Observation{Machine: machine()}
	o.Proxy = proxyOf(o.Machine, func(h *bmov1.BareMetalHost) { h.Spec.AutomatedCleaningMode = "disabled" })
	o.Claim = claimOf(o.Machine, bound())
	if o.Claim.Spec = wanted(o); o.Claim.Spec.AutomatedCleaningMode != "disabled" {
		t.Fatalf("got %q", o.Claim.Spec.AutomatedCleaningMode)
	}
	o.Cluster = simCluster()
	if deleting(o.Machine); wanted(o).AutomatedCleaningMode != "disabled" {
		t.Error("the host is cleaned although the next Machine may get it")
	}
	if o.Cluster = nil; wanted(o).AutomatedCleaningMode != "" {
		t.Error("the host is not cleaned although its Cluster is being deleted")
	}
	o.Machine.DeletionTimestamp, o.Proxy = nil, nil
	if got := wanted(o).AutomatedCleaningMode; got != "disabled" {
		t.Errorf("without a proxy: got %q", got)
	}
	if o.Proxy = newProxy(o.Machine, o.Claim); wanted(o).AutomatedCleaningMode != "disabled" {
		t.Error("a new proxy has the host be cleaned")
	}
	if o.Proxy.Spec.AutomatedCleaningMode = "metadata"; wanted(o).AutomatedCleaningMode != "" {
		t.Error("the host is not cleaned although the provider says so")
	}
}

// A claim is found by the Machines that own it in what a cache keeps of it.
func TestTheCacheKeepsWhichMachinesOwnAClaim(t *testing.T) {
	kept, err := hostclaim.KeepClaim(keptPair().Claim)
	claim, ok := kept.(*metal3v1.HostClaim)
	if err != nil || !ok || machinesOf(claim)["m1"] != "uid-m1" || !isOwner("uid-k", claim) || !isClaim(claim) {
		t.Errorf("got %v, %v", kept, err)
	}
}

// questions counts the questions to an API server that has nothing.
type questions struct {
	client.Reader

	times int
}

func (a *questions) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	a.times++
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}

// A tenant can write any owners, and each of them is a question to the API server.
func TestAClaimWithManyOwnersCostsNothing(t *testing.T) {
	p := keptPair(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) {
		for i := range 1000 {
			c.OwnerReferences = append(c.OwnerReferences, ownerMachine(rolled(fmt.Sprint("forged-", i))))
		}
	})
	live := &questions{}
	r := &Reconciler{Read: Readers{Live: live}}
	if left, err := r.isLeft(t.Context(), client.ObjectKeyFromObject(p.Claim), p, nil); left || err != nil || live.times > 0 {
		t.Errorf("got %t, %v after %d questions, want that it is left alone", left, err, live.times)
	}
	if left, err := r.isLeft(t.Context(), client.ObjectKeyFromObject(p.Claim), keptPair(), nil); !left || err != nil || live.times != 1 {
		t.Errorf("got %t, %v after %d questions, want that the pair of m1 has no Machine", left, err, live.times)
	}
}
