package hostclaim

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// maxHolds is how many annotations of a claim keep its host off.
const maxHolds = 8

const (
	rebootKey    = metal3v1.RebootAnnotation + "/"
	hostKey      = metal3v1.HostRebootAnnotation + "-"
	maxHoldValue = 256
)

// Reboots are what the annotations of a claim ask for.
type Reboots struct {
	// once is the value of the annotation that reboots, nil for no reboot.
	once *string
	// holds are the annotations that keep the host off.
	holds map[string]string
}

// RebootsOf reads the annotations of a claim. What cannot be read is a plain reboot: the value is for details alone.
func RebootsOf(claim *metal3v1.HostClaim) Reboots {
	asked := Reboots{holds: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(claim.Annotations)) {
		mode := rebootMode(claim.Annotations[key])
		switch hold, isHold := holdOf(key); {
		case key == metal3v1.RebootAnnotation, key == metal3v1.HostRebootAnnotation:
			asked.once = &mode
		case isHold && len(asked.holds) < maxHolds:
			asked.holds[hold] = mode
		}
	}
	return asked
}

// holdOf returns the annotation of the host for one of the claim. A tenant may write what no annotation of the host can
// be called: "host.metal3.io/reboot--x" would be "reboot.metal3.io/-x", for which an API server refuses all that is
// written to the host.
func holdOf(key string) (string, bool) {
	for _, prefix := range []string{rebootKey, hostKey} {
		if name, ok := strings.CutPrefix(key, prefix); ok && len(validation.IsQualifiedName(rebootKey+name)) == 0 {
			return rebootKey + name, true
		}
	}
	return "", false
}

// rebootMode leaves of a value what Metal3 documents.
func rebootMode(value string) string {
	var asked struct {
		Mode bmov1.RebootMode `json:"mode"`
	}
	if len(value) > maxHoldValue || json.Unmarshal([]byte(value), &asked) != nil ||
		asked.Mode != bmov1.RebootModeHard && asked.Mode != bmov1.RebootModeSoft {
		return ""
	}
	return `{"mode":"` + string(asked.Mode) + `"}`
}

// Tell has the annotations of what stands for a claim, a host or a claim in another cluster, say what the claim asks
// for, and returns them. A reboot is written down beside it, until the claim asks for it no more: should the process
// die between the two, it is not told again.
func (asked Reboots) Tell(annotations map[string]string) map[string]string {
	told := Rebooting(annotations)
	switch {
	case asked.once != nil && !told:
		annotations = Set(annotations, metal3v1.RebootingAnnotation, "true")
		annotations[bmov1.RebootAnnotationPrefix] = *asked.once
	case asked.once == nil && told:
		delete(annotations, metal3v1.RebootingAnnotation)
	}
	ours := heldBy(annotations)
	for _, key := range ours {
		if _, ok := asked.holds[key]; !ok {
			delete(annotations, key)
		}
	}
	var held []string
	for _, key := range slices.Sorted(maps.Keys(asked.holds)) {
		if _, others := annotations[key]; others && !slices.Contains(ours, key) {
			continue // An administrator has it.
		}
		held = append(held, key)
	}
	annotations = Set(annotations, metal3v1.HoldsAnnotation, strings.Join(held, ","))
	for _, key := range held {
		annotations[key] = asked.holds[key]
	}
	return annotations
}

// Rebooting reports whether a reboot was told to what has the annotations, and is still asked for by its claim.
func Rebooting(annotations map[string]string) bool {
	return annotations[metal3v1.RebootingAnnotation] != ""
}

// heldBy returns the annotations by which its claim keeps a host off.
func heldBy(annotations map[string]string) []string {
	return slices.DeleteFunc(strings.Split(annotations[metal3v1.HoldsAnnotation], ","), func(key string) bool {
		return !strings.HasPrefix(key, rebootKey)
	})
}

// Rebooted takes off a claim what was told to what has the annotations.
func Rebooted(claim *metal3v1.HostClaim, annotations map[string]string) {
	if Rebooting(annotations) {
		delete(claim.Annotations, metal3v1.RebootAnnotation)
		delete(claim.Annotations, metal3v1.HostRebootAnnotation)
	}
}
