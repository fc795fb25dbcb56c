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
// else the token has had its time, unless the request is due whatever the time.
func (r *Reconciler) requestRegistration(ctx context.Context, s *scope, server string, due bool) outcome.Outcome {
	sum := sha256.Sum256([]byte(server))
	digest, now := hex.EncodeToString(sum[:8]), r.Clock.Now()
	reason := conditions.GetReason(s.cluster, archelonv1.RancherImportedCondition)
	unusable := due || reason == archelonv1.ServerURLMissingReason || reason == archelonv1.ServerURLInvalidReason
	out := waitingForRancher()
	out.Kind = outcome.KindPoll
	if out.After = r.untilAsked(s, digest, unusable, now); out.After > 0 {
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

// renewRegistration has Rancher fill in the registration anew when it did so with another server-url than it has now:
// Rancher does not do that by itself, and nothing must be downloaded from an address of before. It makes no request
// while the two agree.
func (r *Reconciler) renewRegistration(ctx context.Context, s *scope) outcome.Outcome {
	server, err := r.Settings.ServerURL(ctx)
	if err != nil {
		return outcome.Done() // The installation tells what is wrong with it.
	}
	current, err := r.Tokens.FilledInFor(ctx, s.management.name, server)
	if err != nil {
		return outcome.FromError(fmt.Errorf("reading the registration: %w", err), archelonv1.InternalErrorReason)
	}
	if current {
		return outcome.Done()
	}
	out := r.requestRegistration(ctx, s, server.String(), true)
	if out.Kind == outcome.KindPoll {
		out.Message = earlierServerURL
	}
	return out
}

// earlierServerURL is what users read while Rancher has yet to follow its own setting.
const earlierServerURL = "The registration token still names an earlier server-url of Rancher; Rancher was asked to fill it in again: " +
	"if that lasts, look at the logs of Rancher"

// fromEarlierServer stops an installation that began before server-url changed. The new registration starts another
// one.
func fromEarlierServer() error {
	return &outcome.Problem{Kind: outcome.KindWait, Reason: archelonv1.WaitingForRancherReason, Message: earlierServerURL}
}

// untilAsked returns for how much longer Rancher is left alone. Where many wait for it, that follows from what registrations take at present, unless
// Rancher will not come to this one by itself.
func (r *Reconciler) untilAsked(s *scope, digest string, unusable bool, now time.Time) time.Duration {
	left := untilRequest(s.management.object, digest, unusable, now)
	if unusable {
		return left
	}
	since := s.management.object.CreationTimestamp.Time
	if since.After(now) {
		since = now
	}
	r.registrations.begin(s.key(), since)
	if left > 0 {
		return left
	}
	return r.registrations.postpone(s.key(), now)
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
