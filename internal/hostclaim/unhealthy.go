package hostclaim

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Unhealthy reports whether a host, or a claim for its host, is marked as unhealthy. Such a host is given to nobody.
func Unhealthy(object client.Object) bool {
	annotations := object.GetAnnotations()
	_, is := annotations[metal3v1.UnhealthyAnnotation]
	_, was := annotations[metal3v1.FormerUnhealthyAnnotation]
	return is || was
}

// PassMark passes the mark of one object on to the one behind it, and reports whether that did not have it. It is never
// taken back, and has none of the words of the one who set it: the value says where it comes from.
func PassMark(from client.Object, kind string, to client.Object) bool {
	if !Unhealthy(from) || Unhealthy(to) {
		return false
	}
	to.SetAnnotations(Set(to.GetAnnotations(), metal3v1.UnhealthyAnnotation, kind+" "+client.ObjectKeyFromObject(from).String()))
	return true
}
