package baremetal

import (
	"encoding/json"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

const (
	// blockMove keeps `clusterctl move` waiting. A host that a claim has carries it until the host is parked.
	blockMove = "clusterctl.cluster.x-k8s.io/block-move"
	// byUs is the value of annotations by which others are told of a host. Whoever else has set one keeps it.
	byUs = "metal3.io/hostclaim"
)

// park prepares a paused claim and its host for `clusterctl move`, which takes neither their status nor their UIDs
// along. Only the host of the namespace of the claim can come along, and only that is touched: a claim must not keep
// the infrastructure manager from hosts elsewhere.
func park(o Observation, host *bmov1.BareMetalHost) []Action {
	if host.Namespace != o.Claim.Namespace {
		return nil
	}
	var actions []Action
	marked := o.Claim.DeepCopy()
	setAnnotation(marked, metal3v1.ParkedAnnotation, keyOf(host).String())
	if marked.Annotations[metal3v1.ParkedAnnotation] != o.Claim.Annotations[metal3v1.ParkedAnnotation] {
		actions = append(actions, changeClaim{o.Claim, marked, "have it wait for its host wherever it goes", nil})
	}
	if after := parked(host, o.HardwareData); after != nil {
		actions = append(actions, parkHost{changeHost{host, after, "park it while its claim is paused", nil}, o.Claim})
	}
	return actions
}

// parked returns a host as it can be moved, nil if it is so. The baremetal-operator leaves a paused host alone, and
// takes the status from the annotation where the host has none. What its hardware is comes with the HardwareData.
func parked(host *bmov1.BareMetalHost, hardware bool) *bmov1.BareMetalHost {
	after := host.DeepCopy()
	if _, stopped := after.Annotations[bmov1.PausedAnnotation]; !stopped {
		setOn(after, bmov1.PausedAnnotation, byUs)
	}
	if !statusless(host) {
		status := host.Status.DeepCopy()
		if hardware {
			status.HardwareDetails = nil
		}
		raw, err := json.Marshal(status)
		if err != nil {
			return nil // It is what the API server has sent as JSON.
		}
		setOn(after, bmov1.StatusAnnotation, string(raw))
	}
	// In another cluster the claim has another UID.
	after.Spec.ConsumerRef.UID = ""
	dropOurs(after, blockMove)
	return changed(host, after)
}

// parked reports whether a claim, or a host of it, still carries what it was given when it was paused.
func (o Observation) parked() bool {
	_, marked := o.Claim.Annotations[metal3v1.ParkedAnnotation]
	return marked || slices.ContainsFunc(o.owned(), func(host *bmov1.BareMetalHost) bool {
		return host.Annotations[bmov1.PausedAnnotation] == byUs
	})
}

// movable reports whether the claim has a host that was prepared for a move. The host can run in another cluster by
// now. Only a host beside the claim can.
func (o Observation) movable() bool {
	return slices.ContainsFunc(o.owned(), func(host *bmov1.BareMetalHost) bool {
		prepared := host.Spec.ConsumerRef.UID == "" || host.Annotations[bmov1.PausedAnnotation] == byUs
		return prepared && host.Namespace == o.Claim.Namespace
	})
}

// unparked has the baremetal-operator go on with a host whose claim is not paused any more.
func unparked(host *bmov1.BareMetalHost) { dropOurs(host, bmov1.PausedAnnotation) }

// block has `clusterctl move` wait until a host is parked. It looks for that only before it pauses anything.
func block(host *bmov1.BareMetalHost) {
	if _, blocked := host.Annotations[blockMove]; !blocked {
		setOn(host, blockMove, byUs)
	}
}

// restoring reports whether what is known of a host is in an annotation: it has been moved, and the
// baremetal-operator has not looked at it yet.
func restoring(host *bmov1.BareMetalHost) bool {
	_, kept := host.Annotations[bmov1.StatusAnnotation]
	return kept && statusless(host)
}

// statusless reports whether a host has no status yet, as the baremetal-operator sees it.
func statusless(host *bmov1.BareMetalHost) bool {
	return host.Status.OperationalStatus == "" && host.Status.Provisioning.State == bmov1.StateNone
}

func setOn(host *bmov1.BareMetalHost, key, value string) {
	host.Annotations = hostclaim.Set(host.Annotations, key, value)
}

// dropOurs removes an annotation unless somebody else has set it.
func dropOurs(host *bmov1.BareMetalHost, key string) {
	if host.Annotations[key] == byUs {
		delete(host.Annotations, key)
	}
}

// parkedOf returns the host with which a claim was paused, nil if there is none, or if it cannot have come along.
func parkedOf(claim *metal3v1.HostClaim) *types.NamespacedName {
	namespace, name, ok := strings.Cut(claim.Annotations[metal3v1.ParkedAnnotation], "/")
	if !ok || name == "" || namespace != claim.Namespace {
		return nil
	}
	return &types.NamespacedName{Namespace: namespace, Name: name}
}

// namedBy returns the host that a claim has, had, or was paused with, or that its metadata names: a claim that was
// restored has no status, and the cache can be older than the host that was restored with it. A label that is a hash
// names no host; the event of that host wakes the claim.
func namedBy(claim *metal3v1.HostClaim) *types.NamespacedName {
	if host := hostOf(claim); host != nil {
		return host
	}
	if host := parkedOf(claim); host != nil {
		return host
	}
	namespace, name, ok := strings.Cut(claim.Labels[metal3v1.HostLabel], ".")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil
	}
	return &types.NamespacedName{Namespace: namespace, Name: name}
}
