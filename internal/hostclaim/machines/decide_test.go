package machines

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

func machine(change ...func(*Machine)) *Machine {
	m := &Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "m", UID: "uid-m", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "c"}},
		Kind:       "baremetal", Selector: metal3v1.HostSelector{MatchLabels: map[string]string{"infra-kind": "medium"}},
	}
	for _, each := range change {
		each(m)
	}
	return m
}

// claimOf returns the claim of a Machine as the API server has it, with conditions that are true or have a reason.
func claimOf(m *Machine, conditions map[string]string, change ...func(*metal3v1.HostClaim)) *metal3v1.HostClaim {
	c := newClaim(m)
	c.UID, c.ResourceVersion, c.Generation, c.Status.ObservedGeneration = "uid-c", "1", 1, 1
	for name, reason := range conditions {
		condition := metav1.Condition{Type: name, Status: "False", Reason: reason}
		if reason == "True" {
			condition.Status = "True"
		}
		c.Status.Conditions = append(c.Status.Conditions, condition)
	}
	c.Status.NICs = []metal3v1.NIC{{Name: "ens3", MAC: "52:54:00:01:00:05", IP: "10.0.0.1"}}
	c.Status.Addresses = []metal3v1.HostAddress{{Type: "Hostname", Address: "h.example"}}
	c.Status.BootMACAddress = "52:54:00:01:00:05"
	for _, each := range change {
		each(c)
	}
	return c
}

// proxyOf returns the proxy of a Machine as the API server has it.
func proxyOf(m *Machine, change ...func(*bmov1.BareMetalHost)) *bmov1.BareMetalHost {
	h := newProxy(m, claimOf(m, nil))
	h.UID, h.ResourceVersion = "uid-h", "1"
	for _, each := range change {
		each(h)
	}
	return h
}

func bound(more ...string) map[string]string {
	conditions := map[string]string{"Associated": "True", "Provisioned": "NotProvisioned"}
	for i := 0; i < len(more); i += 2 {
		conditions[more[i]] = more[i+1]
	}
	return conditions
}

// asked is what the provider writes, to a proxy that says what its host has.
func asked(h *bmov1.BareMetalHost) {
	h.Status.Provisioning.State = bmov1.StateAvailable
	h.Spec.Online, h.Spec.Image = true, &bmov1.Image{URL: "https://image", Checksum: "sum", DiskFormat: new("qcow2")}
	h.Spec.UserData = &corev1.SecretReference{Name: "data", Namespace: "team-a"}
}

// inStepOf returns what is settled but for the status of the proxy.
func inStepOf(conditions map[string]string, ask func(*bmov1.BareMetalHost)) Observation {
	o := Observation{Machine: machine()}
	o.Proxy = proxyOf(o.Machine, ask)
	o.Claim = claimOf(o.Machine, conditions)
	o.Claim.Spec = wanted(o)
	o.Claim.Annotations = map[string]string{"hostclaims.metal3.io/stand-in": "uid-h"}
	return o
}

func deleting(m *Machine) { m.DeletionTimestamp = &metav1.Time{} }

// decideRow is a situation, and what follows.
type decideRow struct {
	reason  string
	o       Observation
	want    []string
	problem string
}

func decideRows() map[string]decideRow {
	const create, changes, tells = "creating HostClaim team-a/m", "having HostClaim team-a/m ask for what its Machine does", "telling of the host in BareMetalHost team-a/m"
	both := []string{"deleting HostClaim team-a/m", "deleting BareMetalHost team-a/m"}
	free := func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef, h.OwnerReferences = nil, nil }
	nothing := func(*bmov1.BareMetalHost) {}
	unhealthy := func(h *bmov1.BareMetalHost) { h.Annotations["capi.metal3.io/unhealthy"] = "" }
	return map[string]decideRow{
		"NoKind":        {reason: "it is the provider's alone", o: Observation{Machine: machine(func(m *Machine) { m.Kind = "" })}},
		"New":           {reason: "a claim comes first", o: Observation{Machine: machine()}, want: []string{create}},
		"NewAndPaused":  {reason: "paused is paused", o: Observation{Machine: machine(), Paused: true}},
		"NewAndLeaving": {reason: "it is not to get a host", o: Observation{Machine: machine(deleting)}},
		"HadHost": {reason: "another host would run after the first one, or beside it", problem: "had a host", o: Observation{
			Machine: machine(func(m *Machine) { m.Annotations = map[string]string{"metal3.io/BareMetalHost": "team-a/m"} }),
		}},
		"Unreadable":   {reason: "its user has to correct it", o: Observation{Machine: machine(func(m *Machine) { m.Problem = "bad" })}, problem: "bad"},
		"Waiting":      {reason: "the provider waits as for any host", o: Observation{Machine: machine(), Claim: claimOf(machine(), map[string]string{"Associated": "NoBareMetalHost"})}},
		"Bound":        {reason: "now the provider gets a host", o: Observation{Machine: machine(), Claim: claimOf(machine(), bound())}, want: []string{"creating BareMetalHost team-a/m"}},
		"BoundLeaving": {reason: "nobody needs it any more", o: Observation{Machine: machine(deleting), Claim: claimOf(machine(), bound())}},
		"Asked": {reason: "what the provider writes goes into the claim before anything is told", want: []string{changes}, o: Observation{
			Machine: machine(), Claim: claimOf(machine(), bound()), Proxy: proxyOf(machine(), asked),
		}},
		"AnotherProxy": {reason: "the node has to know that one", want: []string{changes}, o: func() Observation {
			o := inStepOf(bound("Provisioned", "True"), asked)
			o.Proxy.Status, o.Proxy.UID = statusOf(o), "another"
			return o
		}()},
		"Tells":   {reason: "the status of a proxy follows", o: inStepOf(bound("Provisioned", "True"), asked), want: []string{tells}},
		"LetGo":   {reason: "the provider has done with it", o: Observation{Machine: machine(deleting), Claim: claimOf(machine(), bound()), Proxy: proxyOf(machine(), free)}, want: both},
		"Forged":  {reason: "the provider puts itself there again", o: func() Observation { o := inStepOf(bound(), free); o.Proxy.Status = statusOf(o); return o }()},
		"Gone":    {reason: "nobody needs it any more", o: Observation{Gone: true, Claim: claimOf(machine(), bound()), Proxy: proxyOf(machine())}, want: both},
		"Unknown": {reason: "an old cache is no reason", o: Observation{Claim: claimOf(machine(), bound()), Proxy: proxyOf(machine())}},
		"GonePaused": {reason: "it has moved", o: Observation{
			Gone: true, Paused: true, Claim: claimOf(machine(), bound()), Proxy: proxyOf(machine()),
		}},
		"Namesake": {reason: "what an earlier one had is not for this one", problem: "earlier", o: Observation{
			Machine: machine(func(m *Machine) { m.UID = "other" }), Claim: claimOf(machine(), bound()),
		}},
		"NamesakeOfProxy": {reason: "nor its proxy", problem: "earlier", o: Observation{
			Machine: machine(func(m *Machine) { m.UID = "other" }), Proxy: proxyOf(machine()),
		}},
		"Unhealthy": {reason: "the mark goes ahead of all else", want: []string{changes}, o: Observation{
			Machine: machine(), Claim: claimOf(machine(), bound("Provisioned", "True")), Proxy: proxyOf(machine(), asked, unhealthy),
		}},
		"UnhealthyAndLetGo": {reason: "the claim is deleted later", want: []string{changes}, o: Observation{
			Machine: machine(deleting), Claim: claimOf(machine(), bound()), Proxy: proxyOf(machine(), free, unhealthy),
		}},
		"UnhealthyAndGone": {reason: "the claim is deleted later", want: []string{changes}, o: Observation{
			Gone: true, Claim: claimOf(machine(), bound(), func(c *metal3v1.HostClaim) { c.DeletionTimestamp = &metav1.Time{} }),
			Proxy: proxyOf(machine(), unhealthy),
		}},
		"UnhealthyOfAnother": {reason: "its host is not that of the claim", problem: "earlier", o: Observation{
			Machine: machine(), Claim: claimOf(machine(), bound()),
			Proxy: proxyOf(machine(func(m *Machine) { m.UID = "other" }), unhealthy),
		}},
		"Restored": {reason: "nobody but its owner says whose the claim is", problem: "has no owner", o: Observation{
			Machine: machine(), Proxy: proxyOf(machine(), asked), Ownerless: true,
		}},
		"RestoredBeforeItsMachine": {reason: "the Machine may come", o: Observation{
			Gone: true, Ownerless: true, Proxy: proxyOf(machine(), asked, func(h *bmov1.BareMetalHost) { h.OwnerReferences = nil }),
		}},
		"RestoredAndDeleted": {reason: "deletion is not held up", want: []string{tells}, o: Observation{
			Machine: machine(deleting), Proxy: proxyOf(machine(), asked), Ownerless: true,
		}},
		"ClaimDeleted": {reason: "another host would run beside the first one", want: []string{tells}, o: Observation{Machine: machine(), Proxy: proxyOf(machine(), asked)}},
		"Settled":      {reason: "nothing changes", o: func() Observation { o := inStepOf(bound(), nothing); o.Proxy.Status = statusOf(o); return o }()},
		"SettledProvisioned": {reason: "nothing changes", o: func() Observation {
			o := inStepOf(bound("Provisioned", "True"), asked)
			o.Proxy.Status = statusOf(o)
			return o
		}()},
	}
}

func TestDecide(t *testing.T) {
	for name, tc := range decideRows() {
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

// The provider waits with the deletion of a Machine until the host of it has nothing on it any more.
func TestStateOfTheProxy(t *testing.T) {
	nothing := func(*bmov1.BareMetalHost) {}
	stale := func(o Observation) Observation {
		o.Claim.Generation, o.Proxy.Status.Provisioning.State = 2, bmov1.StateProvisioned
		return o
	}
	for name, tc := range map[string]struct {
		o    Observation
		want bmov1.ProvisioningState
	}{
		"Free":           {inStepOf(bound(), nothing), bmov1.StateAvailable},
		"Provisioning":   {inStepOf(bound("Provisioned", "Provisioning"), asked), bmov1.StateProvisioning},
		"AskedJustNow":   {inStepOf(bound(), asked), bmov1.StateProvisioning},
		"Provisioned":    {inStepOf(bound("Provisioned", "True"), asked), bmov1.StateProvisioned},
		"Emptied":        {inStepOf(bound("Provisioned", "Provisioning"), nothing), bmov1.StateDeprovisioning},
		"EmptiedJustNow": {stale(inStepOf(bound("Provisioned", "True"), nothing)), bmov1.StateProvisioned},
		"LostItsHost": {func() Observation {
			o := inStepOf(map[string]string{"Associated": "HostLost"}, asked)
			o.Claim.Annotations = map[string]string{metal3v1.LostHostAnnotation: "infra/h"}
			return o
		}(), bmov1.StateNone},
		"Disputed": {func() Observation {
			o := inStepOf(map[string]string{"Associated": "AdoptionRequired"}, asked)
			o.Proxy.Status.Provisioning.State = bmov1.StateProvisioned
			return o
		}(), bmov1.StateProvisioned},
		"DisputedAndDeleted": {func() Observation {
			o := inStepOf(map[string]string{"Associated": "AdoptionRequired"}, nothing)
			o.Proxy.Status.Provisioning.State = bmov1.StateProvisioned
			deleting(o.Machine)
			return o
		}(), bmov1.StateNone},
		"LostItsHostBeforeUse": {
			inStepOf(map[string]string{"Associated": "NoBareMetalHost"}, asked), bmov1.StateProvisioning,
		},
		"LostItsHostAndAskedNothing": {inStepOf(map[string]string{"Associated": "NoBareMetalHost"}, nothing), bmov1.StateNone},
		"ClaimGone":                  {Observation{Machine: machine(), Proxy: proxyOf(machine(), asked)}, bmov1.StateNone},
		"ClaimIsDeleting": {func() Observation {
			o := inStepOf(bound(), nothing)
			o.Claim.DeletionTimestamp = &metav1.Time{}
			return o
		}(), bmov1.StateDeprovisioning},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stateOf(tc.o); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A claim gets what the Machine and the provider ask for, and names no Secret of another namespace.
func TestWanted(t *testing.T) {
	o := Observation{Machine: machine(func(m *Machine) { m.Args, m.FailureDomain = map[string]metal3v1.Argument{"a": "b"}, "z1" })}
	o.Proxy = proxyOf(o.Machine, asked, func(h *bmov1.BareMetalHost) {
		h.Spec.MetaData, h.Spec.NetworkData = &corev1.SecretReference{Name: "meta", Namespace: "kube-system"}, &corev1.SecretReference{Name: "net"}
	})
	consumer := &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: "team-a", Name: "m"}
	want := metal3v1.HostClaimSpec{
		Online: new(true), Kind: "baremetal", Args: map[string]metal3v1.Argument{"a": "b"}, FailureDomain: "z1", ConsumerRef: consumer,
		HostSelector: metal3v1.HostSelector{MatchLabels: map[string]string{"infra-kind": "medium"}},
		Image:        &metal3v1.Image{URL: "https://image", Checksum: "sum", Format: "qcow2"},
		UserData:     &corev1.SecretReference{Name: "data"}, MetaData: &corev1.SecretReference{Name: "meta"}, NetworkData: &corev1.SecretReference{Name: "net"},
	}
	if diff := cmp.Diff(want, wanted(o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	untold := o
	untold.Proxy = proxyOf(o.Machine, asked, func(h *bmov1.BareMetalHost) { h.Status.Provisioning.State = bmov1.StateNone })
	if wanted(untold).Image != nil {
		t.Error("a claim asks for an image while the provider takes its Machine off the proxy at once")
	}
	far := wanted(Observation{Machine: machine(func(m *Machine) { m.Kind, m.Credentials = "baremetalhost", "kubeconfig" })})
	if far.Kind != "remote" || far.Args["real-kind"] != "baremetalhost" || far.Credentials != "kubeconfig" || *far.Online {
		t.Errorf("got %+v, want a claim of kind remote that is off", far)
	}
	o.Claim = claimOf(machine(), bound())
	o.Machine.Kind, o.Machine.Credentials = "other", "others"
	if kept := wanted(o); kept.Kind != "baremetal" || kept.Credentials != "" {
		t.Errorf("got %+v, want what was asked for at first", kept)
	}
}

// Fields come before annotations, and an annotation that cannot be read is not quoted: it may hold anything.
func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, annotations string
		want              string
	}{
		"Nothing":     {`{}`, `{}`, "  map[]  "},
		"Annotations": {`{"hostSelector":{"matchLabels":{"a":"b","hostclaims.metal3.io/machine":"true"}},"failureDomain":"z"}`, `{"hostclaims.metal3.io/kind":"kubevirt","hostclaims.metal3.io/args":"{\"x\":\"y\"}","hostclaims.metal3.io/credentials":"k"}`, "kubevirt k map[x:y] z "},
		"Fields":      {`{"kind":"baremetal","args":{"x":"1"},"credentials":"f"}`, `{"hostclaims.metal3.io/kind":"kubevirt","hostclaims.metal3.io/args":"{","hostclaims.metal3.io/credentials":"k"}`, "baremetal f map[x:1]  "},
		"NoJSON":      {`{}`, `{"hostclaims.metal3.io/kind":"baremetal","hostclaims.metal3.io/args":"s3cret"}`, `baremetal  map[]  Annotation hostclaims.metal3.io/args cannot be read. Set it to a JSON object with strings, such as {"key":"value"}`},
		"NoStrings":   {`{}`, `{"hostclaims.metal3.io/kind":"baremetal","hostclaims.metal3.io/args":"{\"a\":1}"}`, `baremetal  map[a:]  Annotation hostclaims.metal3.io/args cannot be read. Set it to a JSON object with strings, such as {"key":"value"}`},
	} {
		t.Run(name, func(t *testing.T) {
			object := newMachine()
			var spec map[string]any
			var annotations map[string]string
			if err := json.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tc.annotations), &annotations); err != nil {
				t.Fatal(err)
			}
			object.Object["spec"] = spec
			object.SetAnnotations(annotations)
			m := read(object)
			if m.Selector.MatchLabels["hostclaims.metal3.io/machine"] != "" {
				t.Error("hosts are selected by the label of proxies")
			}
			if got := fmt.Sprintf("%s %s %v %s %s", m.Kind, m.Credentials, m.Args, m.FailureDomain, m.Problem); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A proxy is found by the selector of its Machine, is left alone by the operator, and has no
// label that could not be one.
func TestNewProxy(t *testing.T) {
	m := machine(func(m *Machine) {
		m.Selector.MatchExpressions = []metal3v1.HostSelectorRequirement{
			{Key: "rack", Operator: "in", Values: []string{"r1", "r2"}}, {Key: "gpu", Operator: "Exists"}, {Key: "old", Operator: "DoesNotExist"},
			{Key: "not a key", Operator: "Exists"}, {Key: "hostclaims.metal3.io/namespaces", Operator: "In", Values: []string{"ALL"}},
		}
	})
	claim := claimOf(m, bound(), func(c *metal3v1.HostClaim) {
		c.Labels["info.hostclaims.metal3.io/rack"], c.Labels["other"] = "r1", "x"
		c.Annotations = map[string]string{"hostclaims.metal3.io/copied": `{"labels":{"site":"s1","infra-kind":"large","rack":"r2","old":"yes",
			"cluster.x-k8s.io/cluster-name":"other"},"annotations":{"example.com/room":"blue","baremetalhost.metal3.io/detached":"x"}}`}
	})
	got := newProxy(m, claim)
	want := map[string]string{
		"hostclaims.metal3.io/machine": "true", "cluster.x-k8s.io/cluster-name": "c", "infra-kind": "medium", "rack": "r1", "gpu": "",
		"info.hostclaims.metal3.io/rack": "r1", "site": "s1",
	}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, paused := got.Annotations["baremetalhost.metal3.io/paused"]; !paused || got.Spec.BMC.Address != "" || got.Spec.BootMACAddress != "52:54:00:01:00:05" {
		t.Errorf("got %+v, want it paused, with the boot MAC address and without a BMC", got)
	}
	if !isProxy(got) {
		t.Error("it is not known as a proxy")
	}
	got.Spec.BMC.Address = "redfish://bmc"
	if isProxy(got) {
		t.Error("a real host is taken for a proxy")
	}
}

// What fences a Machine keeps its host off, and is taken back.
func TestReboots(t *testing.T) {
	proxy := proxyOf(machine(), func(h *bmov1.BareMetalHost) { h.Annotations["reboot.metal3.io/remediation"] = "{}" })
	got := reboots(map[string]string{"reboot.metal3.io/old": "", "note": "mine", "reboot.metal3.io": ""}, proxy)
	want := map[string]string{"reboot.metal3.io/remediation": "{}", "note": "mine", "reboot.metal3.io": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
