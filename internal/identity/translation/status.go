package translation

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// publish writes the annotations of the credential and the condition of the identity if they are others than before,
// and says so in Events.
func (r *Reconciler) publish(ctx context.Context, name string, o Observation, d Decision) error {
	reason := ""
	if d.Report != nil {
		reason = d.Report.Reason
	}
	r.memory.noteReason(name, reason, o.Credential == nil)
	if err := r.annotate(ctx, o, d.Report); err != nil {
		return err
	}
	if d.Condition == nil {
		return nil
	}
	before := o.Identity.Condition(infrav1.TranslatedCondition)
	if before != nil && equality.Semantic.DeepEqual(*before, *d.Condition) {
		return nil
	}
	after := o.Identity.DeepCopy()
	after.Status.Conditions = identity.Merge(o.Identity.Status.Conditions, *d.Condition)
	// The list is replaced as a whole, so it must not have changed meanwhile.
	err := r.Client.Status().Patch(ctx, after, reconcile.Locked(o.Identity), client.FieldOwner(FieldOwner))
	if err != nil {
		return fmt.Errorf("publishing the condition: %w", err)
	}
	if before == nil || before.Reason != d.Condition.Reason {
		r.announce(o.Identity, &Report{Reason: d.Condition.Reason, Message: d.Condition.Message})
	}
	return nil
}

// annotate tells on a credential what became of it. One that is not for OCI any more is told nothing.
func (r *Reconciler) annotate(ctx context.Context, o Observation, report *Report) error {
	if o.Credential == nil || o.Credential.DeletionTimestamp != nil {
		return nil
	}
	after := o.Credential.DeepCopy()
	delete(after.Annotations, infrav1.TranslationAnnotation)
	delete(after.Annotations, infrav1.CredentialIdentityAnnotation)
	if report != nil {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, infrav1.TranslationAnnotation, report.String())
	}
	if o.identityOwner() == ours {
		key := r.keyOf(o.Credential.Name).String()
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, infrav1.CredentialIdentityAnnotation, key)
	}
	if maps.Equal(o.Credential.Annotations, after.Annotations) {
		return nil
	}
	if err := r.patch(ctx, o.Credential, after); err != nil {
		return fmt.Errorf("annotating the cloud credential: %w", err)
	}
	before, _, _ := strings.Cut(o.Credential.Annotations[infrav1.TranslationAnnotation], ":")
	if report != nil && before != report.Reason {
		r.announce(&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: after.Namespace, Name: after.Name, UID: after.UID},
		}, report)
	}
	return nil
}

// announce says in an Event what changed for people.
func (r *Reconciler) announce(object client.Object, report *Report) {
	kind, note := corev1.EventTypeWarning, report.Message
	switch report.Reason {
	case infrav1.TranslatedReason:
		kind, note = corev1.EventTypeNormal, "OCIClusterIdentity and Secret match the cloud credential"
	case infrav1.CredentialGoneReason:
		kind = corev1.EventTypeNormal
	}
	r.Recorder.Eventf(object, nil, kind, report.Reason, "Translate", "%s", note)
}
