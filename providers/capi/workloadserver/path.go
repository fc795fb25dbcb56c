package workloadserver

import (
	"errors"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errNoSuchPath = errors.New("not a path that is served")

// target is what the path of a request names.
type target struct {
	resource        schema.GroupVersionResource
	kind            string
	namespace, name string
}

// parseTarget reads a path below the one of the cluster, without its first slash: api/v1/... or apis/GROUP/VERSION/....
func parseTarget(path string) (target, error) {
	var t target
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.resource.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.resource.Group, t.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, errNoSuchPath
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.resource.Resource = parts[0]
	switch len(parts) {
	case 1:
	case 2:
		t.name = parts[1]
	default:
		return t, errNoSuchPath // a subresource
	}
	if t.kind = kindOf(t.resource.GroupResource()); t.kind == "" {
		return t, errNoSuchPath
	}
	return t, nil
}

// kindOf returns the kind of a resource, "" for those that do not exist here.
func kindOf(resource schema.GroupResource) string {
	switch resource.String() {
	case "namespaces":
		return "Namespace"
	case "nodes":
		return "Node"
	case "secrets":
		return "Secret"
	case "serviceaccounts":
		return "ServiceAccount"
	case "services":
		return "Service"
	case "deployments.apps":
		return "Deployment"
	case "daemonsets.apps":
		return "DaemonSet"
	case "jobs.batch":
		return "Job"
	case "poddisruptionbudgets.policy":
		return "PodDisruptionBudget"
	case "clusterroles.rbac.authorization.k8s.io":
		return "ClusterRole"
	case "clusterrolebindings.rbac.authorization.k8s.io":
		return "ClusterRoleBinding"
	default:
		return ""
	}
}

// verbOf returns the verb of Kubernetes for a request.
func verbOf(r *http.Request, t target) string {
	switch r.Method {
	case http.MethodGet:
		watch := r.URL.Query().Get("watch")
		switch {
		case t.name != "":
			return "get"
		case watch == "true" || watch == "1":
			return "watch"
		default:
			return "list"
		}
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return strings.ToLower(r.Method)
	}
}
