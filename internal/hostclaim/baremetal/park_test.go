package baremetal

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/test/simulation"
)

// besides returns a claim and its host in one namespace, where the host runs what the claim asks for.
func besides() (*metal3v1.HostClaim, *bmov1.BareMetalHost) {
	claim := claimWith(func(c *metal3v1.HostClaim) {
		c.Labels[metal3v1.HostLabel] = "a.h"
		c.Spec.Online, c.Spec.Image = new(true), &metal3v1.Image{URL: "x"}
	})
	host := hostOfClaim(func(h *bmov1.BareMetalHost) {
		h.Namespace, h.Spec.Online = "a", true
		h.Spec.Image = &bmov1.Image{URL: "x"}
		h.Status.LastUpdated = new(metav1.Now())
		h.Status.OperationalStatus = bmov1.OperationalStatusOK
		h.Status.Provisioning = bmov1.ProvisionStatus{State: bmov1.StateProvisioned, Image: bmov1.Image{URL: "x"}}
		h.Status.HardwareDetails = &bmov1.HardwareDetails{Hostname: "h.example"}
	})
	return claim, host
}

// away returns what arrives of an object in another cluster: no status, and another UID.
func away(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost) (*metal3v1.HostClaim, *bmov1.BareMetalHost) {
	claim, host = claim.DeepCopy(), host.DeepCopy()
	claim.UID, claim.Status = "another", metal3v1.HostClaimStatus{}
	host.UID, host.Status = "another", bmov1.BareMetalHostStatus{}
	return claim, host
}

// decides applies the decision about a claim and its host, if they are there, and returns it in words.
func decides(t *testing.T, o Observation, claim **metal3v1.HostClaim, host **bmov1.BareMetalHost) string {
	t.Helper()
	d := Decide(o, time.Now())
	for _, action := range d.Actions {
		switch is := action.(type) {
		case changeClaim:
			*claim = is.after
		case changeHost:
			*host = is.after
		case parkHost:
			*host = is.after
		default:
			t.Fatalf("got %s", action)
		}
	}
	if d.Status != nil {
		(*claim).Status = *d.Status
	}
	return printed(d)
}

func TestAPausedClaimCanBeMovedWithItsHost(t *testing.T) {
	claim, host := besides()
	expect := func(what string, paused bool, claim **metal3v1.HostClaim, host **bmov1.BareMetalHost, want string) {
		t.Helper()
		o := Observation{Claim: *claim, Paused: paused, Consumed: list(*host)}
		if got := decides(t, o, claim, host); got != want {
			t.Fatalf("%s: got  %s\nwant %s", what, got, want)
		}
	}
	const resumed = "BareMetalHost a/h: have it as its claim says, HostClaim a/c: have it name its host"

	expect("paused", true, &claim, &host, "HostClaim a/c: have it wait for its host wherever it goes, "+
		"BareMetalHost a/h: park it while its claim is paused")
	expect("parked", true, &claim, &host, "")
	_, blocked := host.Annotations[blockMove]
	if host.Annotations[bmov1.PausedAnnotation] != byUs || blocked || host.Spec.ConsumerRef.UID != "" {
		t.Fatalf("got %v, %v", host.Annotations, host.Spec.ConsumerRef)
	}
	kept := bmov1.BareMetalHostStatus{}
	if err := json.Unmarshal([]byte(host.Annotations[bmov1.StatusAnnotation]), &kept); err != nil ||
		kept.Provisioning.State != bmov1.StateProvisioned || kept.LastUpdated.IsZero() {
		t.Fatalf("got %v, %+v", err, kept)
	}

	there, hostThere := away(claim, host)
	expect("there, and paused", true, &there, &hostThere, "")
	expect("there, and resumed", false, &there, &hostThere, resumed)
	expect("there, and not restored", false, &there, &hostThere, "")
	if hostThere.Spec.ConsumerRef.UID != "another" || hostThere.Spec.Image == nil {
		t.Fatalf("got %+v", hostThere.Spec)
	}
	hostThere.Status = kept
	delete(hostThere.Annotations, bmov1.StatusAnnotation)
	expect("there, and restored", false, &there, &hostThere, "True BareMetalHostAssociated bound a/h")
	if !there.Status.Ready {
		t.Fatalf("got %+v", there.Status)
	}

	expect("resumed here", false, &claim, &host, resumed+", True BareMetalHostAssociated bound a/h")
	_, paused := host.Annotations[bmov1.PausedAnnotation]
	if paused || host.Annotations[blockMove] == "" || host.Spec.ConsumerRef.UID != "uid" {
		t.Fatalf("got %v, %v", host.Annotations, host.Spec.ConsumerRef)
	}
}

// A cache can still have what was written on the claim for an earlier pause. Without that on the API server, the claim
// would be moved before its host, and take another one there.
func TestAHostIsParkedOnlyIfItsClaimSaysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*metal3v1.HostClaim)
		parks  bool
	}{
		"Marked":    {func(c *metal3v1.HostClaim) { setAnnotation(c, metal3v1.ParkedAnnotation, "a/h") }, true},
		"Unmarked":  {func(*metal3v1.HostClaim) {}, false},
		"OtherHost": {func(c *metal3v1.HostClaim) { setAnnotation(c, metal3v1.ParkedAnnotation, "a/h2") }, false},
		"Gone":      {func(c *metal3v1.HostClaim) { c.Finalizers = nil }, false},
	} {
		server := simulation.NewServer(simScheme())
		first, theirs := besides()
		server.Put(theirs)
		setAnnotation(first, metal3v1.ParkedAnnotation, "a/h")
		server.Put(first)
		claim, host := objectsOf[*metal3v1.HostClaim](server, claimGK)[0], objectsOf[*bmov1.BareMetalHost](server, hostGK)[0]
		live := claim.DeepCopy()
		live.Annotations = nil
		tc.change(live)
		server.Put(live)
		if len(live.Finalizers) == 0 {
			server.Remove(server.KeyOf(live))
		}
		actions := park(Observation{Claim: claim, Paused: true, Consumed: list(host)}, host)
		if len(actions) != 1 {
			t.Fatalf("%s: got %v", name, actions)
		}
		c := server.Client(nil)
		err := actions[0].Do(t.Context(), &Reconciler{Client: c, Read: Readers{Live: c}})
		_, parked := objectsOf[*bmov1.BareMetalHost](server, hostGK)[0].Annotations[bmov1.PausedAnnotation]
		if parked != tc.parks || reconcile.Overtaken(err) == tc.parks {
			t.Errorf("%s: the host is parked: %t, %v", name, parked, err)
		}
	}
}

func TestParking(t *testing.T) {
	with := func(change func(*metal3v1.HostClaim, *bmov1.BareMetalHost)) Observation {
		claim, host := besides()
		change(claim, host)
		return Observation{Claim: claim, Paused: true, Consumed: list(host)}
	}
	marks := func(c *metal3v1.HostClaim) { setAnnotation(c, metal3v1.ParkedAnnotation, "a/h") }
	arrived := func(c *metal3v1.HostClaim, h *bmov1.BareMetalHost) {
		marks(c)
		*h = *parked(h, false)
		h.Status, h.DeletionTimestamp = bmov1.BareMetalHostStatus{}, nil
	}
	resumed := func(o Observation) Observation {
		o.Paused = false
		return o
	}
	for name, tc := range map[string]struct {
		o    Observation
		want string
	}{
		"a host of another namespace": {Observation{Claim: claimWith(nil), Paused: true, Consumed: list(hostOfClaim(nil))}, ""},
		"moved, and about to go": {with(func(c *metal3v1.HostClaim, _ *bmov1.BareMetalHost) {
			setAnnotation(c, "clusterctl.cluster.x-k8s.io/delete-for-move", "yes")
			deleted(c)
		}), ""},
		"before its host": {
			Observation{Claim: claimWith(marks), Candidates: list(simHost("other", "*"))}, "False Binding",
		},
		"another host has the name": {
			Observation{Claim: claimWith(marks), Named: simHost("h", "*")},
			"HostClaim a/c: have it name its host, False NoBareMetalHost",
		},
		"forged, of another namespace": {
			Observation{Claim: claimWith(func(c *metal3v1.HostClaim) { setAnnotation(c, metal3v1.ParkedAnnotation, "infra/h") })},
			"HostClaim a/c: have it name its host, False NoBareMetalHost",
		},
		"deleted before its host is restored": {
			resumed(with(func(c *metal3v1.HostClaim, h *bmov1.BareMetalHost) {
				arrived(c, h)
				deleted(c)
			})),
			"BareMetalHost a/h: take off it what its claim has put there, True HostClaimDeleting bound a/h",
		},
		"emptied before it is restored": {
			resumed(with(func(c *metal3v1.HostClaim, h *bmov1.BareMetalHost) {
				arrived(c, h)
				deleted(c)
				*h = *emptied(h)
			})),
			"True HostClaimDeleting bound a/h",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.Requester = hostclaim.Requester{Name: "a"}
			if got := printed(Decide(tc.o, time.Now())); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// What others have set stays.
func TestParkingIsModest(t *testing.T) {
	_, host := besides()
	host.Annotations[bmov1.PausedAnnotation], host.Annotations[blockMove] = "by an administrator", "for another reason"
	after := parked(host, false)
	unparked(after)
	if after.Annotations[bmov1.PausedAnnotation] != "by an administrator" || after.Annotations[blockMove] != "for another reason" {
		t.Errorf("got %v", after.Annotations)
	}
	if !strings.Contains(after.Annotations[bmov1.StatusAnnotation], "h.example") ||
		strings.Contains(parked(host, true).Annotations[bmov1.StatusAnnotation], "h.example") {
		t.Errorf("got %v", after.Annotations)
	}
}
