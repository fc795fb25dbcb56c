package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// registrationRepeat is when Rancher is asked once more. It may have looked with settings that its cache did not have
// yet, and then nothing in the management cluster changes any more.
const registrationRepeat = 5 * time.Minute

// awaitRegistration stops as long as Rancher has not made the registration, or has made it with another server-url than
// it has now: Rancher does not follow that setting by itself, and nothing must be downloaded from an address of before.
// It makes no request while the two agree.
func (d *deciding) awaitRegistration() Decision {
	if err := d.terms.registrationErr; err != nil {
		problem := fail(fmt.Errorf("reading the registration: %w", err))
		switch {
		case problem.Outcome.Kind != outcome.KindWait:
			return problem
		case d.terms.serverErr != nil:
			// No token, and a token without a URL, are passing states, unless Rancher does not know its own address.
			return fail(d.terms.serverErr)
		}
		return d.requestRegistration(false)
	}
	switch {
	case d.terms.serverErr != nil, d.terms.current:
		return pass() // The installation tells what is wrong with the server-url.
	case d.terms.currentErr != nil:
		return fail(fmt.Errorf("reading the registration: %w", d.terms.currentErr))
	}
	requested := d.requestRegistration(true)
	if requested.Outcome.Kind == outcome.KindPoll {
		requested.Outcome.Message = earlierServerURL
	}
	return requested
}

// clockSkew is how much later than here it may be where Rancher runs. A time that lies ahead by less is just now.
const clockSkew = 5 * time.Minute

// awaitPreparation keeps the agent from registering before Rancher is ready for it
// (docs/adr/0062-no-agent-before-rancher-is-ready.md).
func (d *deciding) awaitPreparation() Decision {
	m := d.management
	begun := m.namespaced
	if begun.IsZero() {
		begun = d.terms.tokened // It comes a moment earlier.
	}
	left := begun.Add(preparationPatience).Sub(d.now)
	if m.prepared() || left <= 0 || left > preparationPatience+clockSkew {
		return pass()
	}
	out := waitingForRancher()
	out.Kind, out.After = outcome.KindPoll, min(left, preparationPatience)
	return stop(out)
}

// requestRegistration has Rancher look at the registration token again when it was deleted, or after its server-url
// could not be used: neither the deletion nor a change of that setting makes it do so, a change of the v3 Cluster does.
// The condition may tell that server-url could not be used; else the token has had its time, unless the request is due
// whatever the time. Where many wait for Rancher, that time follows from what registrations take at present, unless
// Rancher will not come to this one by itself.
func (d *deciding) requestRegistration(due bool) Decision {
	sum := sha256.Sum256([]byte(d.terms.server.String()))
	digest := hex.EncodeToString(sum[:8])
	told := meta.FindStatusCondition(d.cluster.GetConditions(), archelonv1.RancherImportedCondition)
	unusable := due || told != nil && (told.Reason == archelonv1.ServerURLMissingReason || told.Reason == archelonv1.ServerURLInvalidReason)
	out := waitingForRancher()
	out.Kind = outcome.KindPoll
	out.After = untilRequest(d.management.object, digest, unusable, d.now)
	if !unusable {
		look := askRegistrations{since: d.management.object.CreationTimestamp.Time, left: out.After}
		if d.lacks(look) {
			return ask(look)
		}
		out.After = d.delay
	}
	if out.After > 0 {
		return stop(out)
	}
	out.After = registrationRepeat
	return actAndStop(requestRegistration{cluster: d.management.object, value: requestOf(digest, d.now)}, out)
}

// requestRegistration asks Rancher for a registration by a change of the v3 Cluster, by a patch that carries its UID.
type requestRegistration struct {
	cluster *managementv3.Cluster
	value   string
}

func (a requestRegistration) String() string {
	return fmt.Sprintf("v3 Rancher cluster %s: ask Rancher for its registration", a.cluster.Name)
}

func (a requestRegistration) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(managementv3.SchemeGroupVersion.WithKind("Cluster"))
	object.SetName(a.cluster.Name)
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`,
		a.cluster.UID, archelonv1.RegistrationRequestedAnnotation, a.value)
	if err := r.patchUID(ctx, object, patch); err != nil {
		return failure("requesting the registration", err)
	}
	r.registrations.looks(o.key)
	return outcome.Done()
}

// askRegistrations asks for how much longer Rancher is left alone, by what registrations take at present.
type askRegistrations struct {
	since time.Time
	left  time.Duration
}

func (askRegistrations) String() string { return "what registrations take at present" }

func (q askRegistrations) read(_ context.Context, r *Reconciler, o *Observation) error {
	now := r.Clock.Now()
	since := q.since
	if since.After(now) {
		since = now
	}
	r.registrations.begin(o.key, since)
	if o.delay = q.left; o.delay <= 0 {
		o.delay = r.registrations.postpone(o.key, now)
	}
	return nil
}

// earlierServerURL is what users read while Rancher has yet to follow its own setting.
const earlierServerURL = "Waiting for Rancher to write its current server-url into the registration token, which still has an earlier one. " +
	"After 5 minutes, check the log of Rancher"

// fromEarlierServer stops an installation that began before server-url changed. The new registration starts another
// one.
func fromEarlierServer() error {
	return &outcome.Problem{Kind: outcome.KindWait, Reason: archelonv1.WaitingForRancherReason, Message: earlierServerURL}
}

// requestOf is the value of RegistrationRequestedAnnotation.
func requestOf(digest string, at time.Time) string {
	return digest + "@" + at.UTC().Format(time.RFC3339)
}

// untilRequest returns how long Rancher has left for a registration before it is to be asked. unusable says that it had
// no server-url of use until now, and so no time is due to it.
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
