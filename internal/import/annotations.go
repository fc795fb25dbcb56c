package importer

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Fleet's templates read the annotations of Fleet Clusters. Rancher copies the annotations of a v3 Rancher cluster to
// its Fleet Cluster, but for its own and those of kubectl, so an annotation of a CAPI cluster has to be on the Rancher
// cluster and no more. Tools keep far more in annotations than in labels, so none is copied that an administrator has
// not named.

// meant are domains of annotations that mean something to a program that finds them on a Rancher cluster, beside those
// of owners. The order is that of the alphabet.
var meant = []string{ //nolint:gochecknoglobals // it is never changed
	"archelon.io",   // The bookkeeping of this project.
	"cattle.io",     // Rancher, which copies none of them.
	"janitor",       // kube-janitor deletes what has its annotations.
	"k8s.io",        // Kubernetes, and tools of its groups.
	"kubernetes.io", // The same, and kubectl apply.
	"kyverno.io",    // Kyverno
	"operator-sdk",  // Operator SDK: operator-sdk/primary-resource.
	"pulumi.com",    // Pulumi
	"rancher",       // The dashboard of Rancher: ui.rancher.
	"rancher.io",    // Rancher
	"x-k8s.io",      // Cluster API
}

// CheckPropagatedAnnotation reports what is wrong with a key of annotations, or a pattern such as example.com/*, that
// an administrator wants Rancher clusters to get from their CAPI clusters. A * stands for any characters but a slash,
// behind the domain.
func CheckPropagatedAnnotation(pattern string) error {
	domain, name, found := strings.Cut(pattern, "/")
	switch {
	case !found || domain == "" || name == "" || strings.Contains(name, "/"):
		return fmt.Errorf("%q must have a domain and a name, such as example.com/cost-center or example.com/*", pattern)
	case strings.Contains(domain, "*"):
		return fmt.Errorf("%q must name its domain, without a *", pattern)
	case strings.ContainsAny(pattern, `?[]\ ,`):
		return fmt.Errorf("%q must have no other pattern than *", pattern)
	case !mayPropagate(pattern):
		return fmt.Errorf("%q has a meaning on a Rancher cluster, so it is never copied", pattern)
	}
	return nil
}

// mayPropagate reports whether an annotation means nothing to Kubernetes, Rancher and the tools that find what they own
// by one.
func mayPropagate(key string) bool {
	key = strings.ToLower(key) // The API server takes capital letters in the domain of an annotation.
	domain, _, found := strings.Cut(key, "/")
	return found && !strings.Contains(key, "cattle.io") && !ofOwner(key) && !within(domain, meant)
}

// propagatesAnnotation reports whether Rancher clusters get an annotation from their CAPI clusters.
func (r Rules) propagatesAnnotation(key string) bool {
	return slices.ContainsFunc(r.PropagatedAnnotations, func(pattern string) bool {
		ok, err := path.Match(pattern, key)
		return ok && err == nil
	}) && mayPropagate(key)
}

// annotationsOf returns those of the annotations of a CAPI cluster that its Rancher cluster gets, within the bound: a
// copy that was bounded is larger than it.
func (r Rules) annotationsOf(cluster *clusterv1.Cluster) map[string]string {
	if len(r.PropagatedAnnotations) == 0 {
		return nil
	}
	propagated := map[string]string{}
	for key, value := range cluster.Annotations {
		if r.propagatesAnnotation(key) {
			propagated[key] = controller.Head(value, controller.MaxLabels+utf8.UTFMax) // Head may leave out a part of a character.
		}
	}
	return controller.Bound(propagated, controller.MaxLabels, func(string) bool { return false })
}

// addAnnotations adds the annotations that a Rancher cluster gets from its CAPI cluster. It fails if they are too
// large: then the cache has left some of them out, and those must not look as if they had been taken off the CAPI
// cluster.
func (r Rules) addAnnotations(desired *Desired) error {
	propagated := r.annotationsOf(desired.Cluster)
	if controller.Exceeds(propagated, controller.MaxLabels) {
		return &outcome.Problem{
			Kind: outcome.KindStall, Reason: archelonv1.TooManyAnnotationsReason,
			Message: fmt.Sprintf("The annotations that the Rancher cluster gets from this Cluster have more than %d KiB. "+
				"The annotations in Rancher stay as they are. Remove or shorten annotations of this Cluster, "+
				"or ask your administrator to name fewer in the Helm value import.propagatedAnnotations", controller.MaxLabels>>10),
		}
	}
	if len(propagated) > 0 {
		maps.Copy(desired.Annotations, propagated)
		desired.Annotations[archelonv1.PropagatedAnnotationsAnnotation] = strings.Join(slices.Sorted(maps.Keys(propagated)), ",")
	}
	return nil
}

// annotationsGiven are the keys of the annotations that a Rancher cluster has from its CAPI cluster.
func annotationsGiven(annotations map[string]string) []string {
	listed := annotations[archelonv1.PropagatedAnnotationsAnnotation]
	if listed == "" || len(listed) > 2*controller.MaxLabels { // A longer one is not of here.
		return nil
	}
	given := slices.DeleteFunc(strings.Split(listed, ","), func(key string) bool {
		return !mayPropagate(key) // What is written there may not have come from here.
	})
	slices.Sort(given)
	return given
}

// annotationsTaken are those of them that the CAPI cluster does not have any more, or may not give.
func annotationsTaken(observed, wanted map[string]string) map[string]any {
	taken := map[string]any{}
	for _, key := range annotationsGiven(observed) {
		_, have := observed[key]
		if _, want := wanted[key]; have && !want {
			taken[key] = nil
		}
	}
	return taken
}
