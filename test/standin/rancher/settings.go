package rancher

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of Rancher's settings.
const (
	settingServerURL     = "server-url"
	settingInternalURL   = "internal-server-url"
	settingCACerts       = "cacerts"
	settingTLSMode       = "agent-tls-mode"
	settingWorkspace     = "fleet-default-workspace-name"
	settingAgentImage    = "agent-image"
	settingRegistry      = "system-default-registry"
	settingVersion       = "server-version"
	settingInstallUUID   = "install-uuid"
	defaultWorkspace     = "fleet-default"
	defaultAgentImage    = "rancher/rancher-agent:v2.15.0"
	defaultServerVersion = "v2.15.0"
)

// installSettings creates the namespaces and settings that Rancher has right after its start.
// A value that somebody set before is kept, except for the CA, which is always Rancher's own.
func (s *Standin) installSettings(ctx context.Context) error {
	for _, name := range []string{globalDataNamespace, defaultWorkspace} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := s.api.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	for _, setting := range []struct{ name, value, byDefault string }{
		{settingServerURL, s.server.url(), ""},
		{settingInternalURL, s.server.url(), ""},
		{settingCACerts, string(s.server.caCert()), ""},
		{settingTLSMode, "", s.opts.AgentTLSMode},
		{settingWorkspace, "", defaultWorkspace},
		{settingAgentImage, "", s.opts.AgentImage},
		{settingVersion, "", defaultServerVersion},
		{settingInstallUUID, "00000000-0000-4000-8000-000000000001", ""},
		{"imported-cluster-version-management", "", "true"},
		{settingRegistry, "", ""},
		{"crt-default-ttl-minutes", "", "43200"},
		{"crt-default-grace-period-minutes", "", "180"},
	} {
		u := newObject(settingGVK)
		u.SetName(setting.name)
		u.Object["value"] = setting.value
		u.Object["default"] = setting.byDefault
		u.Object["customized"] = false
		u.Object["source"] = ""
		err := s.api.Create(ctx, u)
		if apierrors.IsAlreadyExists(err) {
			err = s.refreshSetting(ctx, setting.name, setting.value, setting.byDefault)
		}
		if err != nil {
			return fmt.Errorf("creating setting %s: %w", setting.name, err)
		}
	}
	return nil
}

// refreshSetting brings a setting of an earlier stand-in up to date: its addresses and CA are
// gone, unless they were kept, and defaults belong to Rancher.
func (s *Standin) refreshSetting(ctx context.Context, name, value, byDefault string) error {
	return s.changeSetting(ctx, name, func(u *unstructured.Unstructured) {
		u.Object["default"] = byDefault
		keeps := s.opts.StateNamespace != "" && s.opts.ServerURL != "" && text(u, "value") != "" && name != settingCACerts
		if value != "" && !keeps {
			u.Object["value"] = value
		}
	})
}

func (s *Standin) setSetting(ctx context.Context, name, value string) error {
	return s.changeSetting(ctx, name, func(u *unstructured.Unstructured) { u.Object["value"] = value })
}

func (s *Standin) changeSetting(ctx context.Context, name string, change mutate) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		u := newObject(settingGVK)
		if err := s.api.Get(ctx, client.ObjectKey{Name: name}, u); err != nil {
			return err
		}
		change(u)
		return s.api.Update(ctx, u)
	})
	if err != nil {
		return fmt.Errorf("changing setting %s: %w", name, err)
	}
	return nil
}

// setting returns the effective value: value, else default. A missing setting is empty.
func setting(ctx context.Context, reader client.Reader, name string) (string, error) {
	u := newObject(settingGVK)
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, u); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading setting %s: %w", name, err)
	}
	if value := text(u, "value"); value != "" {
		return value, nil
	}
	return text(u, "default"), nil
}
