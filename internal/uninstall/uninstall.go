package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
)

// pause is the time between two looks. There are a few in the life of a process, so a watch would cost more.
const pause = time.Second

// grace is how long the manager, while it still runs, may take to finish deletions that have begun.
// Nobody finishes them after it.
const grace = 30 * time.Second

// Run uninstalls what the options say and prints what it does. The error says what is left.
func Run(ctx context.Context, config *rest.Config, opts *Options, out io.Writer) error {
	u, err := newUninstaller(ctx, config, opts, out)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	if err := u.lookForInstance(ctx); err != nil {
		return fmt.Errorf("looking for instance %s: %w", u.self, err)
	}
	if !opts.Yes {
		return u.preview(ctx)
	}
	phases := []phase{
		{"looking who serves this management cluster", u.seatIsOurs},
		{"letting the manager finish deletions that have begun", u.finishDeletions},
		{"looking into every namespace", u.reach},
		{"stopping the manager", u.stopManager},
		{"waiting for the manager to stop", u.awaitStop},
		{"waiting for the seat in Rancher's cluster", u.seatIsFree},
		{"releasing what is held", u.release},
		{"leaving the seat in Rancher's cluster", u.leaveSeat},
		{"forgetting the seat in Rancher's cluster", u.forgetSeat},
		{"deleting the Lease", u.deleteLease},
	}
	if opts.OnlyHostClaims {
		phases = []phase{{"looking into every namespace", u.reach}, {"releasing HostClaims", u.release}}
	}
	for _, phase := range phases {
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	note := ""
	if u.count.outside > 0 {
		note = fmt.Sprintf("; %d of the CAPI clusters were not in the scope any more, and their Rancher clusters stay", u.count.outside)
	}
	if u.count.claims > 0 {
		note = fmt.Sprintf("; %d HostClaims and Secrets of theirs released, and their hosts left as they are", u.count.claims) + note
	}
	if len(u.skipped) > 0 {
		note += "; not looked into: namespaces " + strings.Join(sets.List(u.skipped), ", ")
	}
	if len(u.again) > 0 {
		note += fmt.Sprintf("; held again, because another program puts the finalizers back: %s: metadata.managedFields names it", some(sets.List(u.again)))
	}
	u.say("Done: %d CAPI clusters, %d Rancher clusters and %d RoleBindings released, %d Rancher clusters deleted%s",
		u.count.clusters, u.count.records, u.count.bindings, u.count.deleted, note)
	u.sayLeftInRancher()
	return nil
}

// phase is a step of the uninstallation.
type phase struct {
	name string
	run  func(context.Context) error
}

// deleteLease ends the registration of the instance: what it names is not its own any more.
func (u *uninstaller) deleteLease(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: u.self.Namespace, Name: u.self.LeaseName()}}
	return client.IgnoreNotFound(u.home.Delete(ctx, lease))
}

type uninstaller struct {
	// home is the cluster of the manager. client reaches that one and Rancher's cluster, where that is another one.
	home, client client.Client
	// origin is the UID of the management cluster, and seat the manager's Lease in Rancher's cluster. Both are zero unless
	// Rancher is in another cluster.
	origin types.UID
	seat   *seat.Leaver
	opts   *Options
	scope  shard.Scope
	self   instance.ID
	out    io.Writer
	count  struct{ clusters, outside, records, bindings, deleted, claims int }
	others registered
	// namedOnly says that the instance is known by the objects that name it, and by nothing else.
	namedOnly bool
	// dry says that nothing is written: planned has what would be released, in the order of the work.
	dry     bool
	planned []string
	// released is what was released in this run. again are those of them that were held again.
	released sets.Set[heldOnce]
	again    sets.Set[string]
	// skipped are namespaces that were not looked into.
	skipped sets.Set[string]
}

func newUninstaller(ctx context.Context, config *rest.Config, opts *Options, out io.Writer) (*uninstaller, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	scope, err := opts.scope()
	if err != nil {
		return nil, err
	}
	known, err := scheme.New()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "archelon-uninstall")
	c, err := client.New(config, client.Options{Scheme: known, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	u := &uninstaller{
		home: c, client: c, opts: opts, scope: scope, out: out, self: instance.ID{Namespace: cmp.Or(opts.LeaderElectNamespace, opts.InstanceNamespace), Name: opts.Instance},
		skipped: sets.Set[string]{}, released: sets.Set[heldOnce]{}, again: sets.Set[string]{},
	}
	switch {
	case opts.LeaveRancher:
		err = u.leaveRancher(ctx)
	case opts.RancherKubeconfig != "":
		err = u.reachRancher(ctx, config)
	}
	return u, err
}

// finishDeletions waits for CAPI clusters that are being deleted and held by this instance: as long as the manager
// runs, it deletes their Rancher clusters. It is no error if it does not: perhaps the manager has not run for long.
func (u *uninstaller) finishDeletions(ctx context.Context) error {
	if u.opts.Deployment == "" || u.opts.LeaveRancher {
		return nil // Without Rancher the manager finishes none.
	}
	ctx, cancel := context.WithTimeout(ctx, min(grace, u.opts.Timeout/4))
	defer cancel()
	// Time is up, at worst.
	_ = u.until(ctx, u.deletesNothing)
	return nil
}

// deletesNothing reports whether no deletion waits for the manager.
func (u *uninstaller) deletesNothing(ctx context.Context) (bool, error) {
	objects, err := u.held(ctx)
	if err != nil {
		return false, err
	}
	for i := range objects {
		// The manager sees to deletions in its namespaces, whatever its watch filter says.
		if one := &objects[i]; deleting(one) && u.scope.Owns(one.Namespace) && (!held(one) || u.mine(one)) {
			return false, nil
		}
	}
	return true, nil
}

// release releases everything, in passes: one that finds nothing left is the last. What fails is tried again, because
// the reason may pass: a webhook of Rancher that is not available, an object that another program changes. If time is
// up, what is left is printed.
func (u *uninstaller) release(ctx context.Context) error {
	err := u.until(ctx, func(ctx context.Context) (bool, error) {
		left, err := u.pass(ctx)
		return left == 0, err
	})
	if err != nil {
		u.sayHeld(ctx)
	}
	return err
}

// until asks until the answer is yes. An error is an answer too: it is told when time is up.
func (u *uninstaller) until(ctx context.Context, done func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		switch {
		case err == nil && ok:
			return true, nil
		case err != nil && !timeIsUp(ctx): // What fails because time is up says nothing about why it took so long.
			if last == nil || last.Error() != err.Error() {
				u.say("Trying again: %v", err)
			}
			last = err
		}
		return false, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("not done in time: %w", err), last)
	}
	return nil
}

// timeIsUp reports whether the context has ended, or is about to: a client refuses requests at the deadline, and the
// context ends a moment later.
func timeIsUp(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(deadline)
}

// mapper knows the Deployment of the manager besides the kinds that the manager works with.
func mapper() meta.RESTMapper {
	deployments := meta.NewDefaultRESTMapper(nil)
	deployments.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	return meta.MultiRESTMapper{scheme.Mapper(), deployments}
}

func (u *uninstaller) say(format string, args ...any) {
	// Nobody reads it, at worst.
	_, _ = fmt.Fprintln(u.out, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
