package simulation

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// conditioned is an object with conditions.
type conditioned interface {
	client.Object
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

// applied is what can be applied: conditions, and nothing else.
type applied struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// Apply implements client.SubResourceWriter for conditions, by force. Those that the owner has applied before and does
// not now are removed.
func (s statusClient) Apply(
	_ context.Context, configuration runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	content, ok := configuration.(runtime.Unstructured)
	if !ok {
		panic(fmt.Sprintf("nobody applies a %T", configuration))
	}
	var wanted applied
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.UnstructuredContent(), &wanted); err != nil {
		return err
	}
	options := &client.SubResourceApplyOptions{}
	for _, option := range opts {
		option.ApplyToSubResourceApply(options)
	}
	key := Key{
		schema.FromAPIVersionAndKind(wanted.APIVersion, wanted.Kind).GroupKind(),
		types.NamespacedName{Namespace: wanted.Metadata.Namespace, Name: wanted.Metadata.Name},
	}
	server := s.client.server
	return s.client.carryOut("apply", key, func() error {
		server.Writes = append(server.Writes, Write{Verb: "apply", Key: key, Status: true})
		if err := server.applyConditions(key, &wanted, options.FieldManager); err != nil {
			return err
		}
		if answer, ok := configuration.(interface{ SetResourceVersion(version string) }); ok {
			answer.SetResourceVersion(server.objects.get(key).GetResourceVersion())
		}
		return nil
	})
}

func (s *Server) applyConditions(key Key, wanted *applied, owner string) error {
	before := s.objects.get(key)
	if before == nil {
		return apierrors.NewNotFound(key.resource(), key.Name)
	}
	// The UID does not matter: for the status of a custom resource, the API server takes all metadata from what it has,
	// before it compares them.
	if version := wanted.Metadata.ResourceVersion; version != "" && version != before.GetResourceVersion() {
		return apierrors.NewConflict(key.resource(), key.Name, errStale)
	}
	after, ok := copyOf(before).(conditioned)
	if !ok {
		panic(key.String() + " has no conditions")
	}
	conditions := slices.Clone(after.GetConditions())
	for _, kind := range s.owners[key][owner] {
		if meta.FindStatusCondition(wanted.Status.Conditions, kind) == nil {
			meta.RemoveStatusCondition(&conditions, kind)
		}
	}
	var kinds []string
	for _, condition := range wanted.Status.Conditions {
		meta.RemoveStatusCondition(&conditions, condition.Type)
		conditions = append(conditions, condition)
		kinds = append(kinds, condition.Type)
	}
	if s.owners[key] == nil {
		s.owners[key] = map[string][]string{}
	}
	s.owners[key][owner] = kinds
	after.SetConditions(conditions)
	s.store(key, after)
	return nil
}
