package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

// moment is something that has to happen, and the line that says that it has.
type moment struct {
	who, text string
	is        func(ctx context.Context) (bool, error)
}

// witness waits for one moment after the other.
func (w *world) witness(ctx context.Context, p *printer, began time.Time, moments ...moment) error {
	for _, m := range moments {
		var last error
		err := w.until(ctx, func() (is bool) {
			is, last = m.is(ctx)
			return is && last == nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s: %q: %w", m.who, m.text, errors.Join(err, last))
		}
		p.step(time.Since(began), m.who, m.text)
	}
	return nil
}

func (s *servers) available(at *site, name string) moment {
	return moment{name, "the server is clean, and free", func(ctx context.Context) (bool, error) {
		host, err := at.server(ctx, name)
		return host.Status.Provisioning.State == bmov1.StateAvailable && host.Spec.ConsumerRef == nil, err
	}}
}

// has waits until our server is a tenant's.
func (s *servers) has(t tenant) moment {
	const name = "server-1"
	return moment{name, "it belongs to the claim of " + t.namespace, func(ctx context.Context) (bool, error) {
		host, err := s.here.server(ctx, name)
		is := host.Spec.ConsumerRef
		return is != nil && is.Namespace == t.namespace && is.Name == t.claim, err
	}}
}

// booted waits until a server has booted with the user data of tenants, of one after the other, and of nobody else.
func (s *servers) booted(at *site, name string, tenants ...tenant) moment {
	last := tenants[len(tenants)-1]
	return moment{name, "it boots with the user data of " + last.namespace, func(context.Context) (bool, error) {
		with := at.metal3.Provisioned(serversIn, name)
		return slices.EqualFunc(with, tenants, func(is standin.Provisioned, of tenant) bool { return string(is.UserData) == of.userData() }), nil
	}}
}

// says waits until the claim of a tenant gets no server for a reason.
func (s *servers) says(t tenant, reason string) moment {
	return moment{t.claim, "Associated=False (" + reason + ")", func(ctx context.Context) (bool, error) {
		claim, err := s.here.claim(ctx, t.namespace, t.claim)
		if claim == nil || err != nil {
			return false, err
		}
		is := hostclaim.ConditionOf(claim, metal3v1.AssociatedCondition)
		return is.Status == metav1.ConditionFalse && is.Reason == reason, nil
	}}
}

func (s *servers) condition(t tenant, name, kind string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		claim, err := s.here.claim(ctx, t.namespace, name)
		return claim != nil && hostclaim.ConditionOf(claim, kind).Status == metav1.ConditionTrue, err
	}
}

func (s *servers) ready(t tenant, name string) moment {
	return moment{name, "Ready=True: the server runs what the claim says", func(ctx context.Context) (bool, error) {
		claim, err := s.here.claim(ctx, t.namespace, name)
		return claim != nil && claim.Status.Ready, err
	}}
}

func (s *servers) gone(t tenant, name string) moment {
	return moment{name, "the claim is gone", func(ctx context.Context) (bool, error) {
		claim, err := s.here.claim(ctx, t.namespace, name)
		return claim == nil, err
	}}
}
