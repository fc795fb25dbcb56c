package simulation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// WatchOf returns the watch of a kind of objects, or of their metadata.
func WatchOf(s *runtime.Scheme, object client.Object, requests handler.MapFunc, admits predicate.Predicate) Watch {
	_, metadata := object.(*metav1.PartialObjectMetadata)
	return Watch{Kind: kindOf(s, object), Metadata: metadata, Requests: requests, Admits: admits}
}

// Silent records no Events.
type Silent struct{}

// Eventf implements events.EventRecorder.
func (Silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
