package importer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/selector"
)

// EveryNamespace stands in a Selector for all namespaces of the instance.
const EveryNamespace = "*"

// Selector selects CAPI Clusters that are imported without the import label. All that is set has to fit; the zero value
// selects none.
type Selector struct {
	labels     labels.Selector
	classes    []string
	namespaces []string
}

// NewSelector returns a selector by labels of the Cluster, ClusterClasses, each NAME or NAMESPACE/NAME, and namespaces.
func NewSelector(text string, classes, namespaces []string) (Selector, error) {
	s := Selector{classes: classes, namespaces: namespaces}
	var errs []error
	if text != "" {
		parsed, err := selector.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--import-selector %q: %w: correct it, or import everything with --import-namespace=%s", text, err, EveryNamespace))
		}
		s.labels = parsed
	}
	for _, class := range classes {
		namespace, name, qualified := strings.Cut(class, "/")
		if !qualified {
			namespace, name = "any", class
		}
		if len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Subdomain(name)) > 0 {
			errs = append(errs, fmt.Errorf("--import-class %q must be the name of a ClusterClass, or its namespace and name as in classes/quick", class))
		}
	}
	for _, namespace := range namespaces {
		if namespace != EveryNamespace && len(validation.IsDNS1123Label(namespace)) > 0 {
			errs = append(errs, fmt.Errorf("--import-namespace %q must be the name of a namespace, or %s for all", namespace, EveryNamespace))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Selector{}, err
	}
	return s, nil
}

// selects reports whether a CAPI Cluster fits.
func (s Selector) selects(cluster *clusterv1.Cluster) bool {
	if s.labels == nil && len(s.classes)+len(s.namespaces) == 0 {
		return false
	}
	return (s.labels == nil || s.labels.Matches(labels.Set(cluster.Labels))) &&
		(len(s.classes) == 0 || slices.ContainsFunc(s.classes, func(class string) bool { return hasClass(cluster, class) })) &&
		(len(s.namespaces) == 0 || slices.Contains(s.namespaces, EveryNamespace) || slices.Contains(s.namespaces, cluster.Namespace))
}

// hasClass reports whether a CAPI Cluster is of a ClusterClass. Without a namespace, the class may be in any.
func hasClass(cluster *clusterv1.Cluster, class string) bool {
	ref := cluster.Spec.Topology.ClassRef
	return ref.Name != "" && (class == ref.Name || class == cmp.Or(ref.Namespace, cluster.Namespace)+"/"+ref.Name)
}
