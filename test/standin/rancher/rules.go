package rancher

import (
	"fmt"
	"net/http"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// denial is why admission rejects a request; nil admits it.
type denial struct {
	code    int32 // HTTP status
	message string
}

// frozenAnnotations can be removed from a v3 Cluster, but neither added nor changed.
func frozenAnnotations() []string {
	return []string{annotationCreatorID, annotationPrincipal, annotationNoCreatorRBAC}
}

// checkClusterCreate holds Rancher's rules for a new v3 Cluster.
func checkClusterCreate(cluster *unstructured.Unstructured) *denial {
	annotations := cluster.GetAnnotations()
	_, creator := annotations[annotationCreatorID]
	_, principal := annotations[annotationPrincipal]
	_, noCreator := annotations[annotationNoCreatorRBAC]
	switch {
	case creator && noCreator:
		return &denial{http.StatusBadRequest, fmt.Sprintf("cannot have both annotations %s and %s", annotationCreatorID, annotationNoCreatorRBAC)}
	case principal && !creator:
		return &denial{http.StatusBadRequest, fmt.Sprintf("annotation %s needs %s", annotationPrincipal, annotationCreatorID)}
	}
	return nil
}

// checkClusterUpdate holds Rancher's rules for a change of a v3 Cluster.
func checkClusterUpdate(before, after *unstructured.Unstructured) *denial {
	for _, key := range frozenAnnotations() {
		value, ok := after.GetAnnotations()[key]
		if !ok {
			continue
		}
		if old, had := before.GetAnnotations()[key]; !had || old != value {
			return &denial{http.StatusBadRequest, "annotation " + key + " cannot be added or changed"}
		}
	}
	if text(before, "spec", "fleetWorkspaceName") != "" && text(after, "spec", "fleetWorkspaceName") == "" {
		return &denial{http.StatusBadRequest, "once set, fleetWorkspaceName cannot be made empty"}
	}
	return nil
}

// checkClusterDelete keeps Rancher's own cluster.
func checkClusterDelete(name string) *denial {
	if name == "local" {
		return &denial{http.StatusBadRequest, "local cluster may not be deleted"}
	}
	return nil
}

var generatedName = regexp.MustCompile(`^c-[a-z0-9]{5}$`)

// checkProvisioningCreate holds Rancher's rules for a new v1 Cluster, except that creatorId,
// if there is one, must be the given user.
func checkProvisioningCreate(prov *unstructured.Unstructured, user string, clusterExists func(name string) (bool, error)) (*denial, error) {
	name := prov.GetName()
	switch {
	case len(name) < 2 || len(name) > validation.DNS1123LabelMaxLength:
		return &denial{http.StatusUnprocessableEntity, "name must have 2 to 63 characters"}, nil
	case len(validation.IsDNS1123Label(name)) > 0:
		return &denial{http.StatusUnprocessableEntity, "name must be an RFC 1123 label"}, nil
	case name == "local" && prov.GetNamespace() != "fleet-local":
		return &denial{http.StatusUnprocessableEntity, "name \"local\" is reserved"}, nil
	}
	if generatedName.MatchString(name) {
		exists, err := clusterExists(name)
		if err != nil {
			return nil, err
		}
		if !exists {
			return &denial{http.StatusUnprocessableEntity, "name must not have the form c-xxxxx"}, nil
		}
	}
	creator, hasCreator := prov.GetAnnotations()[annotationCreatorID]
	_, noCreator := prov.GetAnnotations()[annotationNoCreatorRBAC]
	switch {
	case hasCreator && noCreator:
		return &denial{http.StatusBadRequest, fmt.Sprintf("cannot have both annotations %s and %s", annotationCreatorID, annotationNoCreatorRBAC)}, nil
	case !noCreator && creator != user:
		return &denial{http.StatusUnprocessableEntity, "annotation " + annotationCreatorID + " must be the requesting user"}, nil
	}
	return nil, nil
}

// checkProvisioningUpdate holds Rancher's rules for a change of a v1 Cluster.
func checkProvisioningUpdate(before, after *unstructured.Unstructured) *denial {
	for _, key := range frozenAnnotations() {
		value, ok := after.GetAnnotations()[key]
		if !ok {
			continue
		}
		if old, had := before.GetAnnotations()[key]; !had || old != value {
			return &denial{http.StatusUnprocessableEntity, "annotation " + key + " cannot be added or changed"}
		}
	}
	if hasField(before, "spec", "rkeConfig") != hasField(after, "spec", "rkeConfig") {
		return &denial{http.StatusUnprocessableEntity, "rkeConfig cannot be added or removed"}
	}
	return nil
}

func hasField(u *unstructured.Unstructured, path ...string) bool {
	value, ok, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	return err == nil && ok && value != nil
}
