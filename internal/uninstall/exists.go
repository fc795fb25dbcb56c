package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// errNotConfirmed is that a preview was printed and nothing was done.
var errNotConfirmed = errors.New("nothing was changed: add --yes to do it")

// lookForInstance refuses an instance that does not exist: a slip in its name would release the objects of all others.
// An instance exists if it has a Lease or a Deployment. If both are gone, for example because its namespace was deleted
// first, the objects that name it are still its own, and nothing else is.
func (u *uninstaller) lookForInstance(ctx context.Context) error {
	registered, err := u.isRegistered(ctx)
	if err != nil || registered {
		return err
	}
	if u.opts.Deployment != "" {
		err := u.home.SubResource("scale").Get(ctx, u.deployment(), &autoscalingv1.Scale{})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("getting the scale of Deployment %s: %w", u.opts.Deployment, err)
		}
		if err == nil {
			return nil
		}
	}
	objects, err := u.held(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(objects, func(o object) bool { return u.isNamed(&o) }) {
		return fmt.Errorf("it does not exist: there is neither Lease %s in namespace %s nor its Deployment, and no object names it: "+
			"check --instance, --instance-namespace, --leader-elect-namespace and --deployment; "+
			"kubectl get leases -n %[2]s -l %[3]s lists the instances", u.self.LeaseName(), u.self.Namespace, archelonv1.InstanceLabel)
	}
	u.namedOnly = true
	u.say("Instance %s has neither a Lease nor a Deployment any more: only what names it is released", u.self)
	return nil
}

// isRegistered reports whether the instance has a Lease.
func (u *uninstaller) isRegistered(ctx context.Context) (bool, error) {
	leases := &coordinationv1.LeaseList{}
	if err := u.home.List(ctx, leases, client.InNamespace(u.self.Namespace)); err != nil {
		return false, fmt.Errorf("listing Leases in namespace %s: %w", u.self.Namespace, err)
	}
	return slices.ContainsFunc(leases.Items, func(l coordinationv1.Lease) bool { return l.Name == u.self.LeaseName() }), nil
}

// isNamed reports whether an object names this instance.
func (u *uninstaller) isNamed(o *object) bool {
	return o.Annotations[archelonv1.InstanceAnnotation] == u.self.String()
}

// plan returns what would be released now.
func (u *uninstaller) plan(ctx context.Context) ([]string, error) {
	u.dry, u.planned = true, nil
	defer func() { u.dry = false }()
	_, err := u.pass(ctx)
	return u.planned, err
}

// preview prints what would be released.
func (u *uninstaller) preview(ctx context.Context) error {
	planned, err := u.plan(ctx)
	if err != nil {
		return err
	}
	for _, one := range planned {
		u.say("Would release %s", one)
	}
	u.say("Would release %d objects", len(planned))
	u.sayLeftInRancher()
	return errNotConfirmed
}

// sayHeld prints what is still held when the time is up.
func (u *uninstaller) sayHeld(ctx context.Context) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if planned, err := u.plan(ctx); err != nil {
		u.say("What is left cannot be listed: %v", err)
	} else if len(planned) > 0 {
		u.say("%d objects are still held: %s", len(planned), some(planned))
	}
}

// some returns the first names of many.
func some(names []string) string {
	const most = 10
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ") + more
}
