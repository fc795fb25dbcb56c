package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// registrationPatience is how long Rancher may take to fill in the registration of a new cluster before it is asked to look again.
const registrationPatience = 30 * time.Second

// registrationRepeat is when Rancher is asked once more. It may have looked with settings that its cache did not have yet, and then nothing
// in the management cluster changes any more.
const registrationRepeat = 5 * time.Minute

// requestRegistration has Rancher look at the registration token again when it was deleted, or after its server-url could not be used: neither the
// deletion nor a change of that setting makes it do so, a change of the v3 Cluster does. The condition may tell that server-url could not be used;
// else the token has had its time.
func (r *Reconciler) requestRegistration(ctx context.Context, s *scope, server string) outcome.Outcome {
	sum := sha256.Sum256([]byte(server))
	digest, now := hex.EncodeToString(sum[:8]), r.Clock.Now()
	reason := conditions.GetReason(s.cluster, archelonv1.RancherImportedCondition)
	unusable := reason == archelonv1.ServerURLMissingReason || reason == archelonv1.ServerURLInvalidReason
	out := waitingForRancher()
	out.Kind = outcome.KindPoll
	if out.After = untilRequest(s.management.object, digest, unusable, now); out.After > 0 {
		return out
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(managementv3.SchemeGroupVersion.WithKind("Cluster"))
	object.SetName(s.management.name)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, archelonv1.RegistrationRequestedAnnotation, requestOf(digest, now))
	if err := r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("requesting the registration: %w", err))
	}
	out.After = registrationRepeat
	return out
}

// requestOf is the value of RegistrationRequestedAnnotation.
func requestOf(digest string, at time.Time) string {
	return digest + "@" + at.UTC().Format(time.RFC3339)
}

// untilRequest returns how long Rancher has left for a registration before it is to be asked. unusable says that it had no server-url of
// use until now, and so no time is due to it.
func untilRequest(cluster *managementv3.Cluster, digest string, unusable bool, now time.Time) time.Duration {
	asked, when, _ := strings.Cut(cluster.Annotations[archelonv1.RegistrationRequestedAnnotation], "@")
	age := now.Sub(cluster.CreationTimestamp.Time)
	switch at, err := time.Parse(time.RFC3339, when); {
	case asked == digest && err == nil && at.After(now):
		return 0 // Of a clock that was wrong. The next request is of this clock.
	case asked == digest && err == nil:
		return registrationRepeat - now.Sub(at)
	case unusable, age < -registrationPatience:
		return 0 // The clocks differ too much for an age.
	default:
		return registrationPatience - age
	}
}
