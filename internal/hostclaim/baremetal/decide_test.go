package baremetal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// claimWith returns a claim that is held, names no host, and says so.
func claimWith(change func(*metal3v1.HostClaim)) *metal3v1.HostClaim {
	claim := simClaim("a", "c")
	claim.UID, claim.Generation = "uid", 1
	claim.Finalizers = []string{metal3v1.BareMetalFinalizer}
	claim.Labels = map[string]string{metal3v1.KindLabel: metal3v1.KindBareMetal}
	if change != nil {
		change(claim)
	}
	return claim
}

// hostOfClaim returns a host that belongs to that claim, and is as it says.
func hostOfClaim(change func(*bmov1.BareMetalHost)) *bmov1.BareMetalHost {
	host := simHost("h", "*")
	host.Spec.Online = false
	host.Spec.ConsumerRef = consumerRef(claimWith(nil))
	host.Annotations[metal3v1.SavedAnnotation] = saved{Online: true}.String()
	host.Annotations[blockMove] = byUs
	if change != nil {
		change(host)
	}
	return host
}

func renamed(host *bmov1.BareMetalHost, name string) *bmov1.BareMetalHost {
	host.Name = name
	return host
}

func list(hosts ...*bmov1.BareMetalHost) []*bmov1.BareMetalHost { return hosts }

func named(claim *metal3v1.HostClaim) {
	claim.Labels[metal3v1.HostLabel] = "infra.h"
}

func on(claim *metal3v1.HostClaim) {
	claim.Annotations = hostclaim.Set(claim.Annotations, metal3v1.PoweredOnAnnotation, "true")
}

func knows(claim *metal3v1.HostClaim) {
	claim.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "h"}
}

func pends(claim *metal3v1.HostClaim) {
	claim.Status.PendingHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "h"}
}

func says(kind, status, reason string) func(*metal3v1.HostClaim) {
	return func(claim *metal3v1.HostClaim) {
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason,
		})
	}
}

// losesH has a claim say which host it has lost, lostForGood that it gets no other one.
func losesH(claim *metal3v1.HostClaim) {
	claim.Annotations = hostclaim.Set(claim.Annotations, metal3v1.LostHostAnnotation, "infra/h")
}

func lostForGood(claim *metal3v1.HostClaim) {
	losesH(claim)
	says("Associated", "False", "HostLost")(claim)
}

func all(changes ...func(*metal3v1.HostClaim)) func(*metal3v1.HostClaim) {
	return func(claim *metal3v1.HostClaim) {
		for _, change := range changes {
			change(claim)
		}
	}
}

func deleted(claim *metal3v1.HostClaim) { claim.DeletionTimestamp = new(metav1.Now()) }

// other has a host belong to an earlier claim of the name, or to one with another UID.
func other(uid types.UID) func(*bmov1.BareMetalHost) {
	return func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef.UID = uid }
}

// decideRow is a situation, and what follows.
type decideRow struct {
	o    Observation
	want string
}

func decideRows() map[string]decideRow {
	free := simHost("h", "*")
	foreign := simHost("h", "*")
	foreign.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Namespace: "infra", Name: "m"}
	image := func(h *bmov1.BareMetalHost) {
		h.Spec.Image, h.Status.Provisioning.State = &bmov1.Image{URL: "x"}, bmov1.StateProvisioned
	}
	cleaning := func(h *bmov1.BareMetalHost) {
		h.Status.Provisioning.State = bmov1.StateDeprovisioning
		h.Annotations[metal3v1.ReleaseAnnotation] = "uid"
	}
	stopped := func(h *bmov1.BareMetalHost) { h.Annotations[bmov1.PausedAnnotation] = "" }
	strange := func(h *bmov1.BareMetalHost) {
		other("old")(h)
		delete(h.Annotations, metal3v1.SavedAnnotation)
	}
	stray := func(key, value string) *bmov1.BareMetalHost {
		return hostOfClaim(func(h *bmov1.BareMetalHost) {
			other("old")(h)
			setOn(h, key, value)
		})
	}
	const left = "BareMetalHost infra/h: say that its claim is gone (AdoptionRequired)"
	copied := Secrets{{Namespace: "infra", Name: "h-hc-userdata"}: {ObjectMeta: metav1.ObjectMeta{
		Namespace: "infra", Name: "h-hc-userdata", Labels: map[string]string{metal3v1.ClaimUIDLabel: "uid", metal3v1.SourceLabel: "u.1"},
	}}}
	wants := func(claim *metal3v1.HostClaim) {
		claim.Spec.Online, claim.Spec.Image = new(true), &metal3v1.Image{URL: "http://x", Checksum: "y"}
		claim.Spec.UserData = &corev1.SecretReference{Name: "s"}
	}
	source := Secrets{{Namespace: "a", Name: "s"}: {ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "s", UID: "u", ResourceVersion: "1",
	}}}
	ofMachine := func(claim *metal3v1.HostClaim) { setAnnotation(claim, "hostclaims.metal3.io/stand-in", "uid-of-proxy") }
	metaDataToo := func(claim *metal3v1.HostClaim) { claim.Spec.MetaData = &corev1.SecretReference{Name: "s"} }
	beside := func(h *bmov1.BareMetalHost) { h.Namespace = "a" }
	copyingSize := hostclaim.Policies{"infra": {*copyingPolicy("size", "")}}
	hasSize := func(c *metal3v1.HostClaim) {
		setAnnotation(c, "hostclaims.metal3.io/copied", `{"labels":{"size":"m"}}`)
	}
	robbed := hostOfClaim(func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef = foreign.Spec.ConsumerRef })
	return map[string]decideRow{
		"no claim": {Observation{}, ""},
		"paused":   {Observation{Claim: claimWith(nil), Paused: true, Candidates: list(free)}, ""},
		"new": {
			Observation{Claim: claimWith(func(c *metal3v1.HostClaim) { c.Finalizers = nil }), Candidates: list(free)},
			"HostClaim a/c: hold it",
		},
		"nothing free": {Observation{Claim: claimWith(nil)}, "False NoBareMetalHost"},
		"a host is free": {
			Observation{Claim: claimWith(nil), Candidates: list(free)}, "False Binding pending infra/h",
		},
		"a selector that cannot be read": {
			Observation{Claim: claimWith(func(c *metal3v1.HostClaim) { c.Spec.HostSelector.MatchLabels["size"] = "*" })},
			"False SelectorInvalid",
		},
		"forged label": {
			Observation{Claim: claimWith(func(c *metal3v1.HostClaim) { c.Labels[metal3v1.HostLabel] = "infra.h" }), Named: foreign},
			"HostClaim a/c: have it name its host (AssociationErased), False NoBareMetalHost",
		},
		"forged status": {
			Observation{Claim: claimWith(knows), Named: foreign}, "False NoBareMetalHost",
		},
		"pending, and free": {
			Observation{Claim: claimWith(pends), Named: free}, "BareMetalHost infra/h: give it to its claim",
		},
		"pending, and taken by somebody": {
			Observation{Claim: claimWith(pends), Named: foreign}, "False NoBareMetalHost",
		},
		"pending, and gone": {Observation{Claim: claimWith(pends)}, "False NoBareMetalHost"},
		"pending, and taken by itself": {
			Observation{Claim: claimWith(all(pends, named)), Named: hostOfClaim(nil)}, "True BareMetalHostAssociated bound infra/h",
		},
		"found again without a word of it": {
			Observation{Claim: claimWith(named), Consumed: list(hostOfClaim(nil))}, "True BareMetalHostAssociated bound infra/h",
		},
		"bound, and not named yet": {
			Observation{Claim: claimWith(nil), Consumed: list(hostOfClaim(nil))},
			"HostClaim a/c: have it name its host, True BareMetalHostAssociated bound infra/h",
		},
		"its labels are to be copied": {
			Observation{Claim: claimWith(named), Consumed: list(hostOfClaim(nil)), Policies: copyingSize, Requester: hostclaim.Requester{Name: "a"}},
			"HostClaim a/c: have it name its host, True BareMetalHostAssociated bound infra/h",
		},
		"its labels are copied": {
			Observation{Claim: claimWith(all(named, hasSize)), Consumed: list(hostOfClaim(nil)), Policies: copyingSize, Requester: hostclaim.Requester{Name: "a"}},
			"True BareMetalHostAssociated bound infra/h",
		},
		"its labels are copied, and paused": {
			Observation{Claim: claimWith(all(named, hasSize)), Paused: true, Consumed: list(hostOfClaim(nil))}, "",
		},
		"its labels were copied, and no policy says so any more": {
			Observation{Claim: claimWith(all(named, hasSize)), Consumed: list(hostOfClaim(nil))},
			"HostClaim a/c: have it name its host, True BareMetalHostAssociated bound infra/h",
		},
		"labels of no host are copied": {
			Observation{Claim: claimWith(hasSize), Policies: copyingSize}, "HostClaim a/c: have it name its host, False NoBareMetalHost",
		},
		"from another cluster": {
			Observation{Claim: claimWith(named), Consumed: list(hostOfClaim(other("")))},
			"BareMetalHost infra/h: have it as its claim says, True BareMetalHostAssociated bound infra/h",
		},
		"a second host": {
			Observation{Claim: claimWith(all(named, knows)), Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) {
				h.Name = "a"
			}), hostOfClaim(nil))},
			"BareMetalHost infra/a: release it, True BareMetalHostAssociated bound infra/h",
		},
		"an image, and its Secret is missing": {
			Observation{Claim: claimWith(all(named, wants, on)), Consumed: list(hostOfClaim(nil))},
			"BareMetalHost infra/h: have it as its claim says, True BareMetalHostAssociated bound infra/h unsynchronized",
		},
		"an image and its Secret": {
			Observation{Claim: claimWith(all(named, wants, on)), Consumed: list(hostOfClaim(nil)), Secrets: source},
			"Secret a/s: copy it to infra/h-hc-userdata, BareMetalHost infra/h: have it as its claim says, " +
				"True BareMetalHostAssociated bound infra/h",
		},
		"an image of a Machine": {
			Observation{Claim: claimWith(all(named, on, wants, ofMachine)), Consumed: list(hostOfClaim(nil)), Secrets: source},
			"Secret a/s: copy it to infra/h-hc-userdata, Secret infra/h-hc-metadata: create it, " +
				"BareMetalHost infra/h: have it as its claim says, True BareMetalHostAssociated bound infra/h",
		},
		"an image of a Machine, and a host beside it": {
			Observation{Claim: claimWith(all(on, wants, ofMachine, metaDataToo)), Consumed: list(hostOfClaim(beside)), Secrets: source},
			"Secret a/s: copy it to a/h-hc-metadata, BareMetalHost a/h: have it as its claim says, " +
				"HostClaim a/c: have it name its host, True BareMetalHostAssociated bound a/h",
		},
		"an image of a Machine whose metaData is missing": {
			Observation{Claim: claimWith(all(named, on, wants, ofMachine, metaDataToo)), Consumed: list(hostOfClaim(nil))},
			"BareMetalHost infra/h: have it as its claim says, True BareMetalHostAssociated bound infra/h unsynchronized",
		},
		"a Machine that asks for nothing": {
			Observation{Claim: claimWith(all(named, ofMachine)), Consumed: list(hostOfClaim(nil))},
			"True BareMetalHostAssociated bound infra/h",
		},
		"another CRD has dropped that it is to be on": {
			Observation{Claim: claimWith(all(named, on)), Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) { h.Spec.Online = true }))},
			"  (FieldsDropped)",
		},
		"of another kind before": {
			Observation{Claim: claimWith(func(c *metal3v1.HostClaim) { c.Finalizers = []string{metal3v1.RemoteFinalizer} }), Candidates: list(simHost("h", "*"))},
			"  (FieldsDropped)",
		},
		"a copy without use, and an image that Metal3 refuses": {
			Observation{
				Claim: claimWith(all(named, on, asksFor(metal3v1.Image{URL: "x", Checksum: "y"}))), Secrets: copied,
				Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) {
					h.Spec.Online, h.Spec.UserData = true, &corev1.SecretReference{Namespace: "infra", Name: "h-hc-userdata"}
				})),
			},
			"True BareMetalHostAssociated bound infra/h unsynchronized",
		},
		"a copy without use": {
			Observation{Claim: claimWith(named), Consumed: list(hostOfClaim(nil)), Secrets: copied},
			"Secret infra/h-hc-userdata: remove it, True BareMetalHostAssociated bound infra/h",
		},
		"lost, and never used": {
			Observation{Claim: claimWith(all(knows, named)), Named: foreign},
			"HostClaim a/c: have it name its host, False NoBareMetalHost",
		},
		"lost, and a copy is left": {
			Observation{Claim: claimWith(knows), Named: foreign, Secrets: copied},
			"Secret infra/h-hc-userdata: remove it, False NoBareMetalHost",
		},
		"lost to the provider, with what was ours": {
			Observation{Claim: claimWith(knows), Named: robbed, Secrets: copied},
			"BareMetalHost infra/h: take off it what its earlier claim has left there, Secret infra/h-hc-userdata: remove it, False NoBareMetalHost",
		},
		"lost to the provider, and deleted": {
			Observation{Claim: claimWith(all(knows, deleted)), Named: robbed},
			"BareMetalHost infra/h: take off it what its earlier claim has left there, HostClaim a/c: release it",
		},
		"lost, and used": {
			Observation{Claim: claimWith(all(knows, named, says("Provisioned", "True", "Provisioned"))), Named: foreign},
			"HostClaim a/c: have it name its host, False HostLost (HostLost)",
		},
		"lost, used, and written down": {
			Observation{Claim: claimWith(all(knows, losesH, says("Provisioned", "True", "Provisioned"))), Named: foreign},
			"False HostLost (HostLost)",
		},
		"lost and used, by a status that somebody has forged": {
			Observation{Claim: claimWith(all(knows, says("Provisioned", "True", "Provisioned"))), Named: foreign, Candidates: list(free)},
			"False NoBareMetalHost",
		},
		"lost for good": {
			Observation{Claim: claimWith(lostForGood), Candidates: list(free)}, "False HostLost",
		},
		"lost for good, by a status that somebody has forged": {
			Observation{Claim: claimWith(says("Associated", "False", "HostLost")), Candidates: list(free)}, "False Binding pending infra/h",
		},
		"lost for good, by an annotation that somebody has forged": {
			Observation{Claim: claimWith(losesH), Candidates: list(free)},
			"HostClaim a/c: have it name its host, False Binding pending infra/h",
		},
		"lost for good, and found": {
			Observation{Claim: claimWith(all(named, says("Associated", "False", "HostLost"))), Consumed: list(hostOfClaim(nil))},
			"True BareMetalHostAssociated bound infra/h",
		},
		"deleted without ever being held": {
			Observation{Claim: claimWith(all(deleted, func(c *metal3v1.HostClaim) { c.Finalizers = []string{"x/y"} }))}, "",
		},
		"deleted": {Observation{Claim: claimWith(deleted)}, "HostClaim a/c: release it"},
		"deleted, and names a host of others": {
			Observation{Claim: claimWith(all(deleted, knows)), Named: foreign}, "HostClaim a/c: release it",
		},
		"deleted, and in use": {
			Observation{Claim: claimWith(deleted), Consumed: list(hostOfClaim(image))},
			"BareMetalHost infra/h: take off it what its claim has put there, True HostClaimDeleting bound infra/h",
		},
		"deleted, and being cleaned": {
			Observation{Claim: claimWith(deleted), Consumed: list(hostOfClaim(cleaning))}, "True HostClaimDeleting bound infra/h",
		},
		"deleted, and clean": {
			Observation{Claim: claimWith(deleted), Consumed: list(hostOfClaim(nil)), Secrets: copied},
			"Secret infra/h-hc-userdata: remove it, BareMetalHost infra/h: release it, True HostClaimDeleting bound infra/h",
		},
		"marked as unhealthy": {
			Observation{
				Claim:    claimWith(all(named, func(c *metal3v1.HostClaim) { setAnnotation(c, "capm3.metal3.io/unhealthy", "x") })),
				Consumed: list(hostOfClaim(nil)),
			},
			"BareMetalHost infra/h: have it as its claim says, True BareMetalHostAssociated bound infra/h",
		},
		"marked as unhealthy, as its host is": {
			Observation{
				Claim:    claimWith(all(named, func(c *metal3v1.HostClaim) { setAnnotation(c, "capm3.metal3.io/unhealthy", "x") })),
				Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) { setOn(h, "capi.metal3.io/unhealthy", "y") })),
			},
			"True BareMetalHostAssociated bound infra/h",
		},
		"deleted, and marked as unhealthy": {
			Observation{
				Claim:    claimWith(all(deleted, func(c *metal3v1.HostClaim) { setAnnotation(c, "capi.metal3.io/unhealthy", "x") })),
				Consumed: list(hostOfClaim(nil)),
			},
			"BareMetalHost infra/h: mark it as unhealthy, as its claim is, True HostClaimDeleting bound infra/h",
		},
		"its claim is gone": {Observation{Consumed: list(hostOfClaim(other("old")))}, left},
		"its claim is gone, and had deleted it": {
			Observation{Consumed: list(stray(metal3v1.ReleaseAnnotation, "old"))}, "BareMetalHost infra/h: release it",
		},
		"its claim is gone, and an administrator says so": {
			Observation{Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) {
				other("old")(h)
				image(h)
				h.Annotations[metal3v1.ReleaseAnnotation] = "old"
			}))},
			"BareMetalHost infra/h: take off it what its claim has put there",
		},
		"its claim is gone, and an administrator names another one": {
			Observation{Consumed: list(stray(metal3v1.ReleaseAnnotation, "older"))}, left,
		},
		"its claim went when it was taken": {
			Observation{Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) {
				other("old")(h)
				h.UID = "h"
				h.Annotations[metal3v1.SavedAnnotation] = asIs(h).String()
			}))},
			"BareMetalHost infra/h: release it",
		},
		"a copy of a host whose claim went when it was taken": {
			Observation{Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) {
				other("old")(h)
				h.Annotations[metal3v1.SavedAnnotation] = asIs(h).String()
				h.UID = "h2"
			}))}, left,
		},
		"restored": {
			Observation{Claim: claimWith(nil), UID: "uid", Consumed: list(hostOfClaim(other("old"))), Candidates: list(free)},
			left + ", False AdoptionRequired",
		},
		"restored, and its host was in use": {
			Observation{
				Claim: claimWith(all(knows, says("Provisioned", "True", "Provisioned"))), UID: "uid",
				Consumed: list(hostOfClaim(other("old"))), Named: hostOfClaim(other("old")),
			},
			left + ", False AdoptionRequired",
		},
		"restored, and the cache does not have its host yet": {
			Observation{Claim: claimWith(named), Named: hostOfClaim(other("old")), Candidates: list(free)}, "False AdoptionRequired",
		},
		"restored, and another host was chosen before": {
			Observation{Claim: claimWith(pends), UID: "uid", Consumed: list(stray("", "")), Named: free},
			left + ", False AdoptionRequired",
		},
		"restored, and to be adopted": {
			Observation{Claim: claimWith(nil), UID: "uid", Consumed: list(stray(metal3v1.AdoptAnnotation, "old"))},
			"BareMetalHost infra/h: give it to the claim that took its claim's place, False AdoptionRequired",
		},
		"restored, and to be adopted by another value": {
			Observation{Claim: claimWith(nil), UID: "uid", Consumed: list(stray(metal3v1.AdoptAnnotation, "uid"))},
			left + ", False AdoptionRequired",
		},
		"restored, and to be adopted by what the cache has of an older claim": {
			Observation{Claim: claimWith(nil), UID: "newer", Consumed: list(stray(metal3v1.AdoptAnnotation, "old"))},
			left + ", False AdoptionRequired",
		},
		"restored, and to be adopted twice": {
			Observation{Claim: claimWith(nil), UID: "uid", Consumed: list(
				stray(metal3v1.AdoptAnnotation, "old"), renamed(stray(metal3v1.AdoptAnnotation, "old"), "h2"),
			)},
			"BareMetalHost infra/h: give it to the claim that took its claim's place, " +
				"BareMetalHost infra/h2: say that its claim is gone (AdoptionRequired), False AdoptionRequired",
		},
		"restored, adopted, and deleted": {
			Observation{Claim: claimWith(deleted), UID: "uid", Consumed: list(stray(metal3v1.AdoptAnnotation, "old"))},
			left + ", HostClaim a/c: release it",
		},
		"restored, and to be cleaned": {
			Observation{Claim: claimWith(nil), UID: "uid", Consumed: list(stray(metal3v1.ReleaseAnnotation, "old"))},
			"BareMetalHost infra/h: release it, False NoBareMetalHost",
		},
		"restored while its host was released": {
			Observation{Claim: claimWith(named), Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) {
				h.Annotations[metal3v1.ReleaseAnnotation] = "uid"
			}))},
			"BareMetalHost infra/h: have it as its claim says, True BareMetalHostAssociated bound infra/h",
		},
		"the cache lags": {Observation{UID: "new", Consumed: list(hostOfClaim(other("new")))}, ""},
		"of a claim that is gone, and taken by somebody else": {Observation{Consumed: list(hostOfClaim(strange))}, ""},
		"to be released, and paused": {Observation{Consumed: list(hostOfClaim(func(h *bmov1.BareMetalHost) {
			other("old")(h)
			stopped(h)
			h.Annotations[metal3v1.ReleaseAnnotation] = "old"
		}))}, ""},
		"host that came before its claim": {Observation{Consumed: list(hostOfClaim(other("")))}, ""},
	}
}

func TestDecide(t *testing.T) {
	for name, tc := range decideRows() {
		t.Run(name, func(t *testing.T) {
			tc.o.Requester = hostclaim.Requester{Name: "a"}
			if got := printed(Decide(tc.o, time.Now())); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// printed says what a decision is.
func printed(d Decision) string {
	var parts []string
	for _, action := range d.Actions {
		text := action.String()
		if change, ok := action.(changeClaim); ok && change.warning != nil {
			text += " (" + change.warning.Reason + ")"
		}
		if change, ok := action.(changeHost); ok && change.warning != nil {
			text += " (" + change.warning.Reason + ")"
		}
		parts = append(parts, text)
	}
	if d.Status != nil {
		claim := &metal3v1.HostClaim{Status: *d.Status}
		is := hostclaim.ConditionOf(claim, "Associated")
		text := fmt.Sprint(is.Status, " ", is.Reason)
		if ref := d.Status.PendingHost; ref != nil {
			text += " pending " + ref.Namespace + "/" + ref.Name
		}
		if ref := d.Status.BareMetalHost; ref != nil {
			text += " bound " + ref.Namespace + "/" + ref.Name
			if is.Reason == "BareMetalHostAssociated" && hostclaim.ConditionOf(claim, "Synchronized").Status != "True" {
				text += " unsynchronized"
			}
		}
		for _, warning := range d.Warnings {
			text += " (" + warning.Reason + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// A claim that has what it wants is left alone.
func TestNothingChangesAtRest(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, o := range map[string]Observation{
		"bound":   {Claim: claimWith(named), Consumed: list(hostOfClaim(nil))},
		"waiting": {Claim: claimWith(nil)},
	} {
		first := Decide(o, now)
		o.Claim.Status = *first.Status
		if second := Decide(o, now.Add(time.Hour)); len(second.Actions) > 0 || !equality.Semantic.DeepEqual(second.Status, first.Status) {
			t.Errorf("%s: %s, then %s", name, printed(first), printed(second))
		}
	}
}

func TestCopiesHaveNamesThatFit(t *testing.T) {
	host := types.NamespacedName{Namespace: "infra", Name: strings.Repeat("h", 253)}
	for _, r := range hostclaim.Roles() {
		if got := copyOf(host, r); len(got.Name) > 253 || !strings.HasSuffix(got.Name, "-hc-"+string(r)) {
			t.Errorf("got %s", got)
		}
	}
	if host, ok := hostOfCopy(copyOf(types.NamespacedName{Namespace: "infra", Name: "h-hc-x"}, hostclaim.MetaData)); !ok || host.Name != "h-hc-x" {
		t.Errorf("got %s", host)
	}
}

// Metal3's provider sets none of the data that its Machine has not, and waits with a move for whoever blocks that. What
// the provider and the administrator have set stays.
func TestAHostThatWasTakenKeepsNothingOfItsClaim(t *testing.T) {
	ref := func(name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: "infra", Name: name}
	}
	host := hostOfClaim(func(h *bmov1.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: "infra", Name: "m"}
		h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = ref("of-the-provider"), ref("h-hc-metadata"), ref("h-hc-networkdata")
		h.Annotations = map[string]string{
			metal3v1.SavedAnnotation: saved{NetworkData: ref("of-the-administrator")}.String(), blockMove: byUs, bmov1.PausedAnnotation: "metal3.io/capm3",
			metal3v1.ProvisionedWithAnnotation: "{}", metal3v1.HoldsAnnotation: "reboot.metal3.io/a", "reboot.metal3.io/a": "", "reboot.metal3.io/capm3": "",
		}
	})
	after := disowned(host)
	if after == nil {
		t.Fatal("nothing was taken off it")
	}
	want := map[string]string{bmov1.PausedAnnotation: "metal3.io/capm3", "reboot.metal3.io/capm3": ""}
	data := []*corev1.SecretReference{ref("of-the-provider"), nil, ref("of-the-administrator")}
	got := []*corev1.SecretReference{after.Spec.UserData, after.Spec.MetaData, after.Spec.NetworkData}
	if !equality.Semantic.DeepEqual(after.Annotations, want) || !equality.Semantic.DeepEqual(got, data) {
		t.Errorf("got annotations %v and data %v, want %v and %v", after.Annotations, got, want, data)
	}
	if again := disowned(after); again != nil {
		t.Errorf("it is written again: %v", again)
	}
	for name, change := range map[string]func(*bmov1.BareMetalHost){
		"Claimed": func(*bmov1.BareMetalHost) {}, "Free": func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef = nil },
	} {
		if disowned(hostOfClaim(change)) != nil {
			t.Errorf("%s: it is changed", name)
		}
	}
}

// The cache of claims does not have what was copied. It is taken off them all the same.
func TestCopiesThatACacheLeavesOutGo(t *testing.T) {
	claim := claimWith(all(named, func(c *metal3v1.HostClaim) {
		setAnnotation(c, "hostclaims.metal3.io/copied", `{"labels":{"size":"m"}}`)
	}))
	d := Decide(Observation{Claim: claim, Consumed: list(hostOfClaim(nil))}, time.Now())
	change, ok := d.Actions[0].(changeClaim)
	if !ok {
		t.Fatalf("got %v", d.Actions)
	}
	patch, err := client.MergeFrom(change.before).Data(change.after)
	want := `{"metadata":{"annotations":{"hostclaims.metal3.io/copied":null},"labels":{"size":null}}}`
	if err != nil || string(patch) != want {
		t.Errorf("got %s, %v, want %s", patch, err, want)
	}
}
