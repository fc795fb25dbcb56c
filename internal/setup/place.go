package setup

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/instance"
)

// slowAnswer is how long the question where the instance may work goes unanswered before probes are answered without.
const slowAnswer = time.Second

// place is where this process works. It is decided before the caches are built, and stays for the life of the process:
// when it is not right any more, the process ends.
type place struct {
	claim instance.Claim
	// member is this process among the others.
	member *member
	// missing are namespaces that the instance names and may not work in yet.
	missing []string
	// isolated is whether the instance has its permissions by RoleBindings, which it may watch, in the namespaces that
	// it names.
	isolated bool
	rights   *access
}

// place decides where this process works: in those namespaces of its scope in which it has permissions, and that do not
// belong to others. If there are none it waits for the first, and serves probes and metrics meanwhile.
func (p *process) place(ctx context.Context) (*place, error) {
	scope, err := p.opts.Scope()
	if err != nil {
		return nil, err
	}
	all := controller.On(ControllersOf(p.opts.Import), p.opts.Gates, false)
	rights, err := newAccess(p.config, scope, p.remote.here(all), p.meters.lacking)
	if err != nil {
		return nil, err
	}
	asking, answered := context.WithCancel(ctx)
	defer answered()
	nowhere := make(chan struct{})
	var serving sync.WaitGroup
	var failed error
	serving.Go(func() {
		if failed = p.serveUntil(asking, nowhere); failed != nil {
			answered()
		}
	})
	found, err := p.find(ctx, asking, rights, sync.OnceFunc(func() { close(nowhere) }))
	answered()
	serving.Wait() // The manager takes the addresses over.
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// find asks for permissions first, and then what of these namespaces the instance gets. It calls waits if that is
// nothing yet. Leases are watched for the life of the process, questions are asked for as long as anybody wants to
// know.
func (p *process) find(ctx, asking context.Context, rights *access, waits func()) (*place, error) {
	granted, missing, err := rights.granted(asking, waits)
	if err != nil {
		return nil, err
	}
	claim, err := p.opts.Claim(granted)
	if err != nil {
		return nil, err
	}
	found := &place{claim: claim, missing: missing, rights: rights}
	found.isolated = len(granted.Included()) > 0 && rights.mayWatchBindings(asking)
	if found.member, err = p.join(ctx, asking, found.claim, waits); err != nil {
		return nil, err
	}
	found.claim.Scope, err = found.member.standBy(asking, waits)
	return found, err
}

// watch ends the process when it may work in other namespaces than it does. It returns when the context ends. Of what
// happens to RoleBindings the role keeper tells; without it the permissions are looked at every minute.
func (p *place) watch(ctx context.Context, end *ending) {
	go p.member.watch(ctx, end)
	if !p.isolated && len(p.claim.Scope.Included()) > 0 {
		go wait.UntilWithContext(ctx, func(context.Context) { p.rights.suspectLoss(nil) }, lossPoll)
	}
	p.rights.watch(ctx, p.claim.Scope.Included(), p.missing, end.because)
}
