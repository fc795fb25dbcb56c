package baremetal

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// maxHolds is how many annotations of a claim keep its host off.
const maxHolds = 8

const (
	rebootKey    = metal3v1.RebootAnnotation + "/"
	hostKey      = metal3v1.HostRebootAnnotation + "-"
	maxHoldValue = 256
)

// reboots are what the annotations of a claim ask for.
type reboots struct {
	// once is the value of the annotation of the host, nil for no reboot.
	once *string
	// holds are the annotations of the host that keep it off.
	holds map[string]string
}

// rebootsOf reads the annotations of a claim. What cannot be read is a plain reboot: the value is for details alone.
func rebootsOf(claim *metal3v1.HostClaim) reboots {
	asked := reboots{holds: map[string]string{}}
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

// holdOf returns the annotation of the host for one of the claim.
func holdOf(key string) (string, bool) {
	for _, prefix := range []string{rebootKey, hostKey} {
		if name, ok := strings.CutPrefix(key, prefix); ok && name != "" {
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

// reboot has the annotations of a host say what the claim asks for. A reboot is written down beside it, until the claim
// asks for it no more: should the process die between the two, the host is not told again.
func reboot(host *bmov1.BareMetalHost, asked reboots) {
	told := host.Annotations[metal3v1.RebootingAnnotation] != ""
	switch {
	case asked.once != nil && !told:
		host.Annotations = set(host.Annotations, metal3v1.RebootingAnnotation, "true")
		host.Annotations[bmov1.RebootAnnotationPrefix] = *asked.once
	case asked.once == nil && told:
		delete(host.Annotations, metal3v1.RebootingAnnotation)
	}
	ours := heldBy(host)
	for _, key := range ours {
		if _, ok := asked.holds[key]; !ok {
			delete(host.Annotations, key)
		}
	}
	var held []string
	for _, key := range slices.Sorted(maps.Keys(asked.holds)) {
		if _, others := host.Annotations[key]; others && !slices.Contains(ours, key) {
			continue // An administrator has it.
		}
		held = append(held, key)
	}
	host.Annotations = set(host.Annotations, metal3v1.HoldsAnnotation, strings.Join(held, ","))
	for _, key := range held {
		host.Annotations[key] = asked.holds[key]
	}
}

// heldBy returns the annotations by which its claim keeps a host off.
func heldBy(host *bmov1.BareMetalHost) []string {
	return slices.DeleteFunc(strings.Split(host.Annotations[metal3v1.HoldsAnnotation], ","), func(key string) bool {
		return !strings.HasPrefix(key, rebootKey)
	})
}

// asleep takes what a claim has asked for off a host.
func asleep(host *bmov1.BareMetalHost) {
	delete(host.Annotations, bmov1.RebootAnnotationPrefix)
	reboot(host, reboots{})
}

// rebooted takes off a claim what its host was told.
func rebooted(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost) {
	if host.Annotations[metal3v1.RebootingAnnotation] != "" {
		delete(claim.Annotations, metal3v1.RebootAnnotation)
		delete(claim.Annotations, metal3v1.HostRebootAnnotation)
	}
}
