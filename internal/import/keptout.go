package importer

import (
	"errors"
	"fmt"
	"strconv"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// keptOut returns the annotation that keeps a CAPI cluster out of Rancher, "" if there is none. The one
// with a prefix is a boolean, read as the import label is, and wins. Of the other one, which Rancher
// Turtles has too, presence counts.
func keptOut(annotations map[string]string) (string, error) {
	if value := annotations[archelonv1.KeptOutAnnotation]; value != "" {
		out, err := strconv.ParseBool(value)
		switch {
		case err != nil:
			return "", errors.New(`it must be "true" or "false"`)
		case out:
			return archelonv1.KeptOutAnnotation, nil
		default:
			return "", nil
		}
	}
	if _, there := annotations[archelonv1.ImportedAnnotation]; there {
		return archelonv1.ImportedAnnotation, nil
	}
	return "", nil
}

// isKeptOut reports whether annotations keep a CAPI cluster out of Rancher. One that cannot be read does, too.
func isKeptOut(annotations map[string]string) bool {
	by, err := keptOut(annotations)
	return by != "" || err != nil
}

// letIn takes what keeps a CAPI cluster out of Rancher off.
func letIn(annotations map[string]string) {
	if isKeptOut(annotations) {
		delete(annotations, archelonv1.KeptOutAnnotation)
	}
	delete(annotations, archelonv1.ImportedAnnotation)
}

// removedInRancher is what to do about a cluster that an annotation keeps out.
func removedInRancher(by string) Decision {
	if by == archelonv1.KeptOutAnnotation {
		return stall(archelonv1.RemovedInRancherReason, fmt.Sprintf(
			`Not imported: annotation %s keeps this Cluster out of Rancher. To import it, remove the annotation, or set it to "false"`, by))
	}
	return stall(archelonv1.RemovedInRancherReason, fmt.Sprintf(
		`Not imported: annotation %q is set. Archelon sets it when the Rancher cluster was deleted, in Rancher or by a tool that took it for its own. `+
			`To import again, remove the annotation`, by))
}
