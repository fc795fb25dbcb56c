package baremetal

import (
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// saidOf returns a condition that a decision publishes.
func saidOf(t *testing.T, d Decision, condition string) metav1.Condition {
	t.Helper()
	if d.Status == nil {
		t.Fatalf("it says nothing: %s", printed(d))
	}
	return hostclaim.ConditionOf(&metal3v1.HostClaim{Status: *d.Status}, condition)
}

// wantSaid compares a condition with "STATUS REASON", and its message with some texts that it has to contain.
func wantSaid(t *testing.T, got metav1.Condition, want string, texts ...string) {
	t.Helper()
	if is := string(got.Status) + " " + got.Reason; is != want {
		t.Errorf("%s is %s (%s), want %s", got.Type, is, got.Message, want)
	}
	for _, text := range texts {
		if !strings.Contains(got.Message, text) {
			t.Errorf("%s says %q, and nothing of %q", got.Type, got.Message, text)
		}
	}
	if len(texts) == 0 && got.Message != "" {
		t.Errorf("%s says %q", got.Type, got.Message)
	}
}

// asksFor has a claim ask for an image.
func asksFor(image metal3v1.Image) func(*metal3v1.HostClaim) {
	return func(c *metal3v1.HostClaim) { c.Spec.Online, c.Spec.Image = new(true), &image }
}

// erring is a host on which Metal3 has failed. What it says itself has the address of a BMC.
func erring(kind bmov1.ErrorType, count int, state bmov1.ProvisioningState) func(*bmov1.BareMetalHost) {
	return func(h *bmov1.BareMetalHost) {
		h.Status.ErrorType, h.Status.ErrorCount, h.Status.ErrorMessage = kind, count, "redfish://192.0.2.7 refuses"
		h.Status.Provisioning.State = state
	}
}

func hosts(changes ...func(*bmov1.BareMetalHost)) []*bmov1.BareMetalHost {
	return list(hostOfClaim(func(h *bmov1.BareMetalHost) {
		for _, change := range changes {
			change(h)
		}
	}))
}

// boots has a host run an image.
func boots(image bmov1.Image) func(*bmov1.BareMetalHost) {
	return func(h *bmov1.BareMetalHost) {
		h.Spec.Online, h.Spec.Image = true, &image
		h.Status.Provisioning = bmov1.ProvisionStatus{State: bmov1.StateProvisioned, Image: image}
	}
}

// A tenant learns what failed and what to do, and not what the BMC says.
func TestHostErrorsSayWhatToDo(t *testing.T) {
	claim := claimWith(all(named, on, asksFor(metal3v1.Image{URL: "http://x", Checksum: "y"})))
	administrator := "Ask your administrator, who finds the cause in status.errorMessage of that BareMetalHost"
	for name, tc := range map[string]struct {
		host  func(*bmov1.BareMetalHost)
		claim *metal3v1.HostClaim
		want  string
	}{
		"a wrong image": {erring(bmov1.ProvisioningError, 1, bmov1.StateProvisioning), claim,
			"Metal3 failed to provision BareMetalHost infra/h, and tries again. Check spec.image.url and spec.image.checksum. If that is " +
				"right, ask your administrator, who finds the cause in status.errorMessage of that BareMetalHost"},
		"a wrong image, deprovisioned before the next try": {erring(bmov1.ProvisioningError, 1, bmov1.StateDeprovisioning), claim,
			"Metal3 failed to provision BareMetalHost infra/h, and tries again. Check spec.image.url"},
		"a wrong method": {func(h *bmov1.BareMetalHost) {
			erring(bmov1.ProvisioningError, 1, bmov1.StateProvisioning)(h)
			h.Spec.CustomDeploy = &bmov1.CustomDeploy{Method: "m"}
		}, claimWith(all(named, func(c *metal3v1.HostClaim) { c.Spec.CustomDeploy = &metal3v1.CustomDeploy{Method: "m"} })),
			"Check spec.customDeploy.method. If that is"},
		"the image before": {func(h *bmov1.BareMetalHost) {
			boots(bmov1.Image{URL: "http://old"})(h)
			erring(bmov1.ProvisioningError, 4, bmov1.StateDeprovisioning)(h)
		}, claim, "Metal3 failed 4 times in a row to deprovision BareMetalHost infra/h, and tries again. " + administrator},
		"the BMC": {erring(bmov1.ProvisionedRegistrationError, 3, bmov1.StateAvailable), claim,
			"Metal3 failed 3 times in a row to connect to the BMC of BareMetalHost infra/h, and tries again. " + administrator},
		"the BMC of a host without a workload": {erring(bmov1.RegistrationError, 0, bmov1.StateAvailable), claimWith(named),
			"failed to connect to the BMC of"},
		"inspection":  {erring(bmov1.InspectionError, 1, bmov1.StateInspecting), claim, "failed to inspect"},
		"preparation": {erring(bmov1.PreparationError, 1, bmov1.StatePreparing), claim, "failed to prepare"},
		"power":       {erring(bmov1.PowerManagementError, 1, bmov1.StateAvailable), claim, "failed to switch the power of"},
		"detachment":  {erring(bmov1.DetachError, 1, bmov1.StateAvailable), claim, "failed to detach"},
		"service":     {erring(bmov1.ServicingError, 1, bmov1.StateAvailable), claim, "failed to service"},
		"another one": {erring("of a later version", 1, bmov1.StateAvailable), claim,
			"Metal3 reports an error of BareMetalHost infra/h. " + administrator},
	} {
		t.Run(name, func(t *testing.T) {
			ready := saidOf(t, Decide(Observation{Claim: tc.claim, Consumed: hosts(tc.host)}, time.Now()), "Ready")
			wantSaid(t, ready, "False HostError", tc.want)
			if strings.Contains(ready.Message, "192.0.2.7") {
				t.Errorf("it quotes the host: %s", ready.Message)
			}
		})
	}
}

// A claim that is deleted says whether its host is being cleaned, or cannot be.
func TestCleaningThatFailsIsReported(t *testing.T) {
	cleaning := func(h *bmov1.BareMetalHost) {
		h.Status.Provisioning.State = bmov1.StateDeprovisioning
		h.Annotations[metal3v1.ReleaseAnnotation] = "uid"
	}
	for name, tc := range map[string]struct {
		host func(*bmov1.BareMetalHost)
		want string
	}{
		"it goes on": {cleaning, "Waiting until Metal3 has cleaned BareMetalHost infra/h"},
		"it fails": {erring(bmov1.ProvisioningError, 5, bmov1.StateDeprovisioning),
			"Metal3 failed 5 times in a row to deprovision BareMetalHost infra/h, and tries again. Until the host is cleaned, it is not given " +
				"back, and this HostClaim stays. Ask your administrator, who finds the cause in status.errorMessage of that BareMetalHost"},
		"the BMC is gone": {erring(bmov1.RegistrationError, 2, bmov1.StateDeprovisioning), "failed 2 times in a row to connect to the BMC of"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(Observation{Claim: claimWith(all(deleted, named)), Consumed: hosts(cleaning, tc.host)}, time.Now())
			for _, each := range []struct{ condition, want string }{
				{"Associated", "True HostClaimDeleting"}, {"Ready", "False HostClaimDeleting"},
			} {
				wantSaid(t, saidOf(t, d, each.condition), each.want, tc.want)
			}
		})
	}
}

// A namespace that may not have the host any more keeps it, and is told.
func TestPermissionThatIsWithdrawnIsReported(t *testing.T) {
	policy := func(names ...string) hostclaim.Policies {
		p := metal3v1.HostDeployPolicy{}
		p.Spec.HostClaimNamespaces = &metal3v1.HostClaimNamespaces{Names: names}
		return hostclaim.Policies{"infra": {p}}
	}
	opensTo := func(value string) func(*bmov1.BareMetalHost) {
		return func(h *bmov1.BareMetalHost) { setOn(h, metal3v1.NamespacesKey, value) }
	}
	uncleaned := func(h *bmov1.BareMetalHost) {
		h.Spec.AutomatedCleaningMode = "disabled"
		h.Status.OperationHistory.Provision.Start = metav1.Now()
	}
	for name, tc := range map[string]struct {
		host     func(*bmov1.BareMetalHost)
		policies hostclaim.Policies
		want     string
	}{
		"open":                         {opensTo("*"), nil, ""},
		"open, and never to be erased": {uncleaned, nil, ""},
		"open by a policy":             {opensTo(""), policy("a"), ""},
		"open to others":               {opensTo("b"), nil, "its label or annotation hostclaims.metal3.io/namespaces does not name it"},
		"a policy for others":          {opensTo("*"), policy("b"), "no HostDeployPolicy of namespace infra allows it"},
		"open to nobody":               {opensTo(""), nil, "it has no label or annotation hostclaims.metal3.io/namespaces, and its namespace has no"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observation{
				Claim: claimWith(all(named, knows)), Consumed: hosts(tc.host), Policies: tc.policies, Requester: hostclaim.Requester{Name: "a"},
			}
			d := Decide(o, time.Now())
			if len(d.Actions) > 0 || d.Status.BareMetalHost == nil {
				t.Errorf("it does not keep its host: %s", printed(d))
			}
			wantSaid(t, saidOf(t, d, "Ready"), "True Ready")
			if tc.want == "" {
				wantSaid(t, saidOf(t, d, "Associated"), "True BareMetalHostAssociated")
				return
			}
			wantSaid(t, saidOf(t, d, "Associated"), "True PermissionWithdrawn", "BareMetalHost infra/h is not open to namespace a any more: "+tc.want,
				"keeps the host until you delete it. Ask your administrator to allow the namespace again, or move what runs on the host")
			o.Claim.Status, o.Consumed = *d.Status, hosts()
			o.Policies = nil
			wantSaid(t, saidOf(t, Decide(o, time.Now()), "Associated"), "True BareMetalHostAssociated")
		})
	}
}

// An administrator who deletes a host ends what runs on it. The tenant has until then to save it.
func TestAHostThatIsDeletedIsReported(t *testing.T) {
	going := func(h *bmov1.BareMetalHost) { h.DeletionTimestamp = new(metav1.Now()) }
	image := bmov1.Image{URL: "http://x", Checksum: "y"}
	claim := claimWith(all(named, on, asksFor(metal3v1.Image{URL: "http://x", Checksum: "y"})))
	d := Decide(Observation{Claim: claim, Consumed: hosts(boots(image), going)}, time.Now())
	for _, each := range []struct{ condition, want string }{{"Associated", "True HostDeleting"}, {"Ready", "False HostDeleting"}} {
		wantSaid(t, saidOf(t, d, each.condition), each.want, "An administrator is deleting BareMetalHost infra/h", "what runs on it ends",
			"gets another host, or, if Metal3 cannot deprovision this one, none (reason HostLost). Save what you need now")
	}
	for _, state := range []bmov1.ProvisioningState{bmov1.StateAvailable, bmov1.StatePoweringOffBeforeDelete} {
		o := Observation{Claim: claimWith(all(named, knows, says("Provisioned", "True", "Provisioned"))), Consumed: hosts(going, func(h *bmov1.BareMetalHost) {
			h.Status.Provisioning.State = state
		})}
		d := Decide(o, time.Now())
		wantSaid(t, saidOf(t, d, "Associated"), "True HostDeleting", "After that, this HostClaim gets another host")
		// As it says: once it is gone, another one is looked for.
		o.Claim.Status, o.Consumed = *d.Status, nil
		wantSaid(t, saidOf(t, Decide(o, time.Now()), "Associated"), "False NoBareMetalHost", "Looking for another host")
	}
	deleting := Decide(Observation{Claim: claimWith(all(named, deleted)), Consumed: hosts(boots(image), going)}, time.Now())
	wantSaid(t, saidOf(t, deleting, "Associated"), "True HostClaimDeleting", "Waiting until Metal3 has cleaned")
}

// People are told once what is about to become of a host, and that a claim has got one.
func TestWhatBecomesOfAHostIsAnEvent(t *testing.T) {
	const got = "Normal BareMetalHostAssociated: Got BareMetalHost infra/h"
	for name, tc := range map[string]struct{ was, is, want string }{
		"got a host":                        {"False Binding", "True BareMetalHostAssociated", got},
		"got one that is not open any more": {"False Binding", "True PermissionWithdrawn", got + ", Warning PermissionWithdrawn: note"},
		"withdrawn":                         {"True BareMetalHostAssociated", "True PermissionWithdrawn", "Warning PermissionWithdrawn: note"},
		"allowed again":                     {"True PermissionWithdrawn", "True BareMetalHostAssociated", ""},
		"being deleted":                     {"True PermissionWithdrawn", "True HostDeleting", "Warning HostDeleting: note"},
		"deleted before it was seen":        {"False Binding", "True HostClaimDeleting", ""},
		"nothing new":                       {"True HostDeleting", "True HostDeleting", ""},
		"uncleaned":                         {"False NoBareMetalHost", "False NotCleaned", "Warning NotCleaned: note"},
	} {
		events := &recorded{}
		r := &Reconciler{Recorder: events, Clock: clocktesting.NewFakePassiveClock(time.Now())}
		claims := map[string]*metal3v1.HostClaim{}
		for _, each := range []string{tc.was, tc.is} {
			status, reason, _ := strings.Cut(each, " ")
			claims[each] = claimWith(all(knows, says("Associated", status, reason)))
			claims[each].Status.Conditions[0].Message = "note"
		}
		r.announce(claims[tc.was], claims[tc.is])
		if got := strings.Join(events.texts, ", "); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
