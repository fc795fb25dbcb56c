package forget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/terminal"
)

// patience is for somebody else who writes a Rancher cluster as well, as Rancher does all the time, and for a webhook
// that does not answer: half a minute in all.
func patience() wait.Backoff {
	return wait.Backoff{Steps: 10, Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 8 * time.Second}
}

type forgetter struct {
	client   client.WithWatch
	opts     Options
	out      io.Writer
	holding  hold.Holding
	patience wait.Backoff
	// quiet is for how long a seat is watched.
	quiet time.Duration
	count struct{ released, deleted, gone int }
}

func newForgetter(c client.WithWatch, opts Options, out io.Writer) *forgetter {
	return &forgetter{
		client: c, opts: opts, out: out, holding: hold.Imports(), patience: patience(), quiet: seat.DefaultTiming().Quiet,
	}
}

// run lists, and does what is listed.
func (f *forgetter) run(ctx context.Context) error {
	records, err := f.list(ctx)
	if err != nil {
		return err
	}
	fates := map[fate]int{}
	for i := range records {
		fates[f.fate(&records[i])]++
	}
	todo := len(records) - fates[leaving]
	if err := f.table(records); err != nil {
		return err
	}
	alive := f.life(ctx)
	switch {
	case alive != nil:
		return alive
	case todo == 0 && len(records) == 0:
		f.say("Nothing to do: no Rancher cluster carries the UID %s.", f.opts.UID)
		return nil
	case todo == 0:
		f.say("Nothing to do: Rancher is deleting all %d Rancher clusters of the management cluster.", len(records))
		return nil
	case !f.opts.Yes:
		f.say("%d of %d Rancher clusters would change. Nothing was written; --yes does it.", todo, len(records))
		return nil
	}
	return f.all(ctx, records)
}

// all does what is listed, one Rancher cluster after the other. One that fails does not stop the others.
func (f *forgetter) all(ctx context.Context, records []record) error {
	var errs []error
	for i := range records {
		if f.fate(&records[i]) == leaving {
			continue
		}
		if err := f.one(ctx, &records[i]); err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
			f.say("%s: %s", terminal.Printable(records[i].Name), terminal.Printable(err.Error()))
		}
	}
	f.say("Done: %d released, %d deleted, %d gone meanwhile, %d failed.",
		f.count.released, f.count.deleted, f.count.gone, len(errs))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it ended before all was done; run it again: %w", ctx.Err())
	case len(errs) > 0:
		return fmt.Errorf("%d Rancher clusters are left; run it again. The first: %w", len(errs), errs[0])
	}
	return nil
}

// one lets go of a Rancher cluster, whoever else writes it meanwhile.
func (f *forgetter) one(ctx context.Context, found *record) error {
	uid, fresh := found.UID, true
	err := retry.OnError(f.patience, passes, func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !fresh {
			if err := f.client.Get(ctx, client.ObjectKeyFromObject(found), &found.Object); err != nil {
				return err
			}
		}
		fresh = false
		if found.UID != uid || found.Labels[archelonv1.ManagementClusterLabel] != string(f.opts.UID) {
			return errGone
		}
		return f.act(ctx, found)
	})
	if apierrors.IsNotFound(err) || errors.Is(err, errGone) {
		f.count.gone++
		f.say("%s is gone, or of another one now", terminal.Printable(found.Name))
		return nil
	}
	return err
}

// errGone is that a Rancher cluster is not that which was listed any more.
var errGone = errors.New("gone")

// passes reports whether something may succeed when it is tried again.
func passes(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err)
}

// act does what the table says. What is to be deleted is deleted before it is released: should it end between the two,
// the finalizer still says that there is something to do.
func (f *forgetter) act(ctx context.Context, found *record) error {
	name := terminal.Printable(found.Name)
	switch f.fate(found) {
	case leaving:
		f.count.gone++
		return nil
	case keep, free:
		if err := hold.Release(ctx, f.client, &found.Object, func() { f.holding.Disown(&found.Object) }); err != nil {
			return err
		}
		f.count.released++
		f.say("Released %s", name)
		return nil
	}
	uid, version := found.UID, found.ResourceVersion
	unchanged := client.Preconditions{UID: &uid, ResourceVersion: &version}
	if err := f.client.Delete(ctx, &found.Object, unchanged); err != nil {
		return err
	}
	f.count.deleted++
	f.say("Deleted %s", name)
	return f.end(ctx, found)
}

// end releases a Rancher cluster that was just deleted, if that has not gone yet: the deletion has changed it. Its
// labels say whose it was until it has gone.
func (f *forgetter) end(ctx context.Context, found *record) error {
	uid := found.UID
	return client.IgnoreNotFound(retry.OnError(f.patience, passes, func() error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(found), &found.Object); err != nil || found.UID != uid {
			return err
		}
		return hold.Release(ctx, f.client, &found.Object, func() { f.holding.Drop(&found.Object, true) })
	}))
}

func (f *forgetter) say(format string, args ...any) {
	// Nobody reads it, at worst.
	_, _ = fmt.Fprintf(f.out, format+"\n", args...)
}
