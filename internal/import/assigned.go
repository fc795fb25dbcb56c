package importer

import (
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

// assignment says who is to import a cluster.
type assignment struct {
	// to is the importer that is named, empty for what the options say.
	to string
	// where names the key and what it is on.
	where string
	// problem is why the name cannot be used.
	problem error
}

// assignedTo reads who is to import a cluster: from the annotation of the Cluster if there is one, even an empty one,
// else from the label of its Namespace.
func assignedTo(cluster, namespace map[string]string) assignment {
	if value, ok := cluster[archelonv1.ManagedByAnnotation]; ok {
		return assign(value, "Annotation "+archelonv1.ManagedByAnnotation)
	}
	return assign(namespace[archelonv1.ManagedByLabel], "Label "+archelonv1.ManagedByLabel+" of the Namespace")
}

func assign(value, where string) assignment {
	who, err := importerNamed(value)
	if err != nil {
		err = &outcome.Problem{
			Kind: outcome.KindStall, Reason: archelonv1.InvalidSettingReason, Message: fmt.Sprintf("%s cannot be used: %s", where, err),
		}
	}
	return assignment{to: who, where: where, problem: err}
}

// namespaceChanged admits Namespaces whose import label changed, or by whose labels the claim selects them or not any
// more. If it selects them, all their labels matter: another instance may not select them any more.
func namespaceChanged(claim instance.Claim) predicate.Predicate {
	if claim.Selector == nil {
		return labelChanged(archelonv1.ImportLabel)
	}
	return predicate.Or(labelChanged(archelonv1.ImportLabel), predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return claim.Selects(e.Object.GetLabels()) },
		DeleteFunc: func(event.DeleteEvent) bool { return false }, // Nothing is in it any more.
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()
			return claim.Selects(before) != claim.Selects(after) || claim.Selects(after) && !maps.Equal(before, after)
		},
	})
}

// labelChanged admits objects on which a label appears, changes or goes. A cache that selects the label shows it as
// the deletion of the object when the label goes.
func labelChanged(label string) predicate.Predicate {
	labelled := func(object client.Object) bool {
		_, ok := object.GetLabels()[label]
		return ok
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return labelled(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return labelled(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return labelled(e.ObjectOld) != labelled(e.ObjectNew) || e.ObjectOld.GetLabels()[label] != e.ObjectNew.GetLabels()[label]
		},
	}
}
