package hostclaim

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

const (
	// maxCopied is how many labels, and how many annotations, a claim gets by policies.
	maxCopied = 32
	// maxCopiedSize bounds all of them together, as JSON. Caches keep this JSON of each claim.
	maxCopiedSize = 8 << 10
	// maxMatching bounds what it costs to match the keys of one host: about a tenth of a second.
	maxMatching = 5_000_000
)

// Copies are labels and annotations of a host that its claim gets because a policy says so.
type Copies struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// CopiesOf returns what the policies in the namespace of a host copy to a claim of a requester. A policy that does not
// allow the requester copies nothing to it.
func CopiesOf(host metav1.Object, policies []metal3v1.HostDeployPolicy, r Requester) Copies {
	var labels, annotations []string
	for i := range policies {
		if copied := policies[i].Spec.MetadataCopy; copied != nil && allows(&policies[i], r) {
			labels, annotations = append(labels, copied.LabelsMatch), append(annotations, copied.AnnotationsMatch)
		}
	}
	return within(
		selected(host.GetLabels(), labels, mayCopyLabel, len(host.GetLabels())),
		selected(host.GetAnnotations(), annotations, mayCopyAnnotation, maxLooked),
	)
}

// selected returns the entries that may be copied and whose keys match one of the expressions. It looks at a number of
// keys in their order, and stops when matching has cost too much. The result does not depend on the order of the
// expressions.
func selected(
	all map[string]string, expressions []string, mayCopy func(key, value string) bool, number int,
) map[string]string {
	slices.Sort(expressions)
	var usable []compiled
	size := 0
	for _, expression := range slices.Compact(expressions) {
		if known := compiledOf(expression); expression != "" && known.err == nil {
			usable, size = append(usable, known), size+known.size
		}
	}
	if len(usable) == 0 {
		return nil
	}
	found, cost := map[string]string{}, 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !mayCopy(key, all[key]) {
			continue
		}
		number--
		if cost += size * (len(key) + 1); number < 0 || cost > maxMatching {
			break
		}
		if slices.ContainsFunc(usable, func(each compiled) bool { return each.whole.MatchString(key) }) {
			found[key] = all[key]
		}
	}
	return found
}

// within returns the entries for which there is room, in the order of their keys. It drops those that may not be
// copied.
func within(labels, annotations map[string]string) Copies {
	room := maxCopiedSize
	return Copies{
		Labels: fitting(labels, mayCopyLabel, &room), Annotations: fitting(annotations, mayCopyAnnotation, &room),
	}
}

func fitting(all map[string]string, mayCopy func(key, value string) bool, room *int) map[string]string {
	var kept map[string]string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !mayCopy(key, all[key]) {
			continue
		}
		size := len(asJSON(map[string]string{key: all[key]}))
		if len(kept) == maxCopied || size > *room {
			continue
		}
		*room -= size
		kept = with(kept, key, all[key])
	}
	return kept
}

// asJSON returns the JSON of something that consists of texts, which cannot fail.
func asJSON(of any) string {
	raw, err := json.Marshal(of)
	if err != nil {
		return ""
	}
	return string(raw)
}

// CopiedTo returns what was copied to a claim, as its annotation says. The tenant or another cluster may have written
// the annotation, so the result has only keys that may be copied, and the bounds of copies.
func CopiedTo(claim *metal3v1.HostClaim) Copies {
	const braces = 64
	said, is := claim.Annotations[metal3v1.CopiedAnnotation], Copies{}
	if len(said) > maxCopiedSize+braces || json.Unmarshal([]byte(said), &is) != nil {
		return Copies{}
	}
	return within(is.Labels, is.Annotations)
}

// PutCopies sets copies on a claim that is about to be changed, and removes earlier ones. It returns the claim from
// which the patch has to be computed.
//
// It compares only the annotation that lists the copies, because caches do not keep the copied keys. So if a user
// changes a copied label, that stays until the copies change.
func PutCopies(claim, after *metal3v1.HostClaim, copies Copies) *metal3v1.HostClaim {
	text := ""
	if len(copies.Labels)+len(copies.Annotations) > 0 {
		text = asJSON(copies)
	}
	if claim.Annotations[metal3v1.CopiedAnnotation] == text {
		return claim
	}
	was, from := CopiedTo(claim), claim.DeepCopy()
	from.Labels, after.Labels = replaced(from.Labels, after.Labels, was.Labels, copies.Labels)
	from.Annotations, after.Annotations = replaced(from.Annotations, after.Annotations, was.Annotations, copies.Annotations)
	after.Annotations = Set(after.Annotations, metal3v1.CopiedAnnotation, text)
	return from
}

// replaced returns two maps. A patch from the first one to the second one removes the earlier copies and sets the new
// ones, whatever the API server has under these keys. Both maps have leftOut, because a patch to an empty map would
// remove all that a cache has left out.
func replaced(from, after, was, is map[string]string) (mapBefore, mapAfter map[string]string) {
	from, after = with(from, leftOut, ""), with(after, leftOut, "")
	for key := range was {
		from[key] = "?" // Any value: the patch says that it goes.
		delete(after, key)
	}
	for key, value := range is {
		delete(from, key)
		after[key] = value
	}
	return from, after
}

func with(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}
