package uninstall

import (
	"context"
	"strings"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
)

// inMine reports whether what names no instance is this instance's: it is in the scope, and nobody else works there.
// What is released all the same is taken again by whoever does.
func (u *uninstaller) inMine(held *object) bool {
	return !u.namedOnly && u.scope.Owns(held.Namespace) && !u.others.workIn(held.Namespace)
}

// releaseClaim takes a finalizer off a HostClaim, or off a Secret with the kubeconfig of one, so that it can be
// deleted. Nothing is undone. What a claim has stays its own: a host keeps its consumerRef, so nobody else gets it and
// nothing on it is lost, and so does a claim in another cluster. An installation that comes later goes on with the
// claim, or cleans up after it if it is gone.
func (u *uninstaller) releaseClaim(ctx context.Context, holding hold.Holding, held *object) error {
	if deleting(held) {
		u.sayCutShort(holding, held)
	}
	if err := hold.Release(ctx, u.client, held, func() { holding.Finalizer.Remove(held) }); err != nil {
		return err
	}
	u.count.claims++
	return nil
}

// sayCutShort says what is left of a claim that is being deleted, and that the manager has not finished with.
func (u *uninstaller) sayCutShort(holding hold.Holding, held *object) {
	switch host := strings.Replace(held.Labels[metal3v1.HostLabel], ".", "/", 1); {
	case holding.Finalizer == hold.BareMetal && host != "":
		u.say("%s is being deleted and its host is not clean: nobody gets BareMetalHost %q until its spec.consumerRef is gone, "+
			"which an installation of Archelon sees to", describe(held), host) // quoted: it may be a tenant's word
	case holding.Finalizer == hold.Remote:
		u.say("%s is being deleted and its claim in the other cluster is not: delete it there", describe(held))
	}
}
