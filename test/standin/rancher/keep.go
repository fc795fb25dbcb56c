package rancher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of what is kept in Options.StateNamespace.
const (
	// caSecret is Rancher's own name for the Secret of its CA.
	caSecret        = "tls-rancher-internal-ca"
	workloadsSecret = "rancher-standin-workloads"
	keepTimeout     = time.Minute
)

// keptCA returns the CA of an earlier stand-in, nil if there is none that can be used.
func (s *Standin) keptCA(ctx context.Context) (*certificateAuthority, error) {
	secret, err := s.kept(ctx, caSecret)
	if err != nil || secret == nil {
		return nil, err
	}
	ca, err := loadCA(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || ca.ends() {
		s.opts.Logger.Info("Rancher's old CA cannot be used any more", "cause", err)
		return nil, nil
	}
	return ca, nil
}

func (s *Standin) keepCA(ctx context.Context, ca *certificateAuthority) error {
	certPEM, keyPEM, err := ca.encode()
	if err != nil {
		return err
	}
	return s.keep(ctx, caSecret, corev1.SecretTypeTLS, func(data map[string][]byte) {
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = certPEM, keyPEM
	})
}

// recall registers the workload clusters of an earlier stand-in, except for those that this one knows already.
func (s *Standin) recall(ctx context.Context) error {
	secret, err := s.kept(ctx, workloadsSecret)
	if err != nil || secret == nil {
		return err
	}
	for name, raw := range secret.Data {
		if _, known := s.fleet.get(name); known {
			continue
		}
		access := Access{}
		if err := json.Unmarshal(raw, &access); err != nil {
			return fmt.Errorf("reading what was kept of workload cluster %s: %w", name, err)
		}
		config, _ := access.Config()
		if err := s.fleet.add(name, config, access.RealAgent); err != nil {
			return err
		}
	}
	return nil
}

func (s *Standin) keepWorkload(name string, config *rest.Config, how []Workload) error {
	if s.opts.StateNamespace == "" {
		return nil
	}
	if len(validation.IsConfigMapKey(name)) > 0 {
		return fmt.Errorf("workload cluster %q cannot be kept under this name", name)
	}
	access, err := NewAccess(config, how...)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(access)
	if err != nil {
		return fmt.Errorf("encoding the access to workload cluster %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	return s.keep(ctx, workloadsSecret, corev1.SecretTypeOpaque, func(data map[string][]byte) { data[name] = raw })
}

func (s *Standin) dropWorkload(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	secret, err := s.kept(ctx, workloadsSecret)
	if err == nil && (secret == nil || secret.Data[name] == nil) {
		return
	}
	if err == nil {
		err = s.keep(ctx, workloadsSecret, corev1.SecretTypeOpaque, func(data map[string][]byte) { delete(data, name) })
	}
	if err != nil {
		s.opts.Logger.Error(err, "a workload cluster is kept although it was removed", "workload", name)
	}
}

// kept returns a Secret of an earlier stand-in, nil if there is none.
func (s *Standin) kept(ctx context.Context, name string) (*corev1.Secret, error) {
	if s.opts.StateNamespace == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := s.api.Get(ctx, client.ObjectKey{Namespace: s.opts.StateNamespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", name, err)
	}
	return secret, nil
}

// keep changes a Secret for a later stand-in, if that is asked for.
func (s *Standin) keep(ctx context.Context, name string, kind corev1.SecretType, change func(map[string][]byte)) error {
	if s.opts.StateNamespace == "" {
		return nil
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.opts.StateNamespace}}
	if err := s.api.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", ns.Name, err)
	}
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultBackoff, again, func() error {
		secret, err := s.kept(ctx, name)
		if err != nil {
			return err
		}
		if secret == nil {
			secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}, Type: kind, Data: map[string][]byte{}}
			change(secret.Data)
			return s.api.Create(ctx, secret)
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		change(secret.Data)
		return s.api.Update(ctx, secret)
	})
	if err != nil {
		return fmt.Errorf("writing secret %s: %w", name, err)
	}
	return nil
}
