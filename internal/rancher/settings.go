package rancher

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Names of the settings of Rancher that an import depends on.
const (
	// ServerURLSetting is the URL at which agents reach Rancher.
	ServerURLSetting = "server-url"
	// CACertsSetting is the CA of ServerURLSetting in PEM, empty when it is publicly trusted.
	CACertsSetting = "cacerts"
	// AgentTLSModeSetting says whether agents trust CACertsSetting only, or the CAs of their system.
	AgentTLSModeSetting = "agent-tls-mode"
	// AgentImageSetting is the image of the agent.
	AgentImageSetting = "agent-image"
	// RegistrySetting is the registry from which the image comes.
	RegistrySetting = "system-default-registry"
)

// Settings reads Rancher's settings.
type Settings struct {
	reader client.Reader
}

// NewSettings returns the settings as seen through r, which should be cached: they are read in
// every import. The scheme of r must know management.cattle.io/v3.
func NewSettings(r client.Reader) (*Settings, error) {
	if r == nil {
		return nil, errors.New("settings need a reader")
	}
	return &Settings{reader: r}, nil
}

// Value returns the effective value of a setting: its value, else its default, which may be empty.
// A setting that does not exist is a Problem.
func (s *Settings) Value(ctx context.Context, name string) (string, error) {
	setting := &managementv3.Setting{}
	err := s.reader.Get(ctx, client.ObjectKey{Name: name}, setting)
	if apierrors.IsNotFound(err) {
		return "", &outcome.Problem{
			Kind:    outcome.KindWait,
			Reason:  archelonv1.SettingsUnavailableReason,
			Message: fmt.Sprintf("Rancher's setting %s does not exist yet. Check that Rancher runs in this cluster", name),
		}
	}
	if err != nil {
		return "", &outcome.Problem{
			Kind:    outcome.KindFail,
			Reason:  archelonv1.SettingsUnavailableReason,
			Message: fmt.Sprintf("Rancher's setting %s cannot be read. Check that Rancher is installed in this cluster", name),
			Err:     err,
		}
	}
	if setting.Value != "" {
		return setting.Value, nil
	}
	return setting.Default, nil
}

// ServerURL returns the URL at which agents reach Rancher. An empty URL, and one that is not an
// https URL of a host, is a Problem.
func (s *Settings) ServerURL(ctx context.Context) (*url.URL, error) {
	value, err := s.Value(ctx, ServerURLSetting)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(value) == "" {
		return nil, &outcome.Problem{
			Kind:    outcome.KindWait,
			Reason:  archelonv1.ServerURLMissingReason,
			Message: "Rancher's setting server-url is empty. Set it in Rancher's global settings",
		}
	}
	// The value is not part of the message: it may hold a user name and a password.
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, &outcome.Problem{
			Kind:   outcome.KindWait,
			Reason: archelonv1.ServerURLInvalidReason,
			Message: "Rancher's setting server-url is not an https URL of a host without user information. " +
				"Correct it in Rancher's global settings",
		}
	}
	return u, nil
}

// Trust returns what is trusted to be Rancher.
func (s *Settings) Trust(ctx context.Context) (Trust, error) {
	mode, err := s.Value(ctx, AgentTLSModeSetting)
	if err != nil {
		return Trust{}, err
	}
	cacerts, err := s.Value(ctx, CACertsSetting)
	if err != nil {
		return Trust{}, err
	}
	return NewTrust(mode, cacerts)
}

// Ready returns an error while the settings that an import needs cannot be read. Their values do not
// matter here: an import says itself what is wrong with them.
func (s *Settings) Ready(ctx context.Context) error {
	for _, name := range []string{ServerURLSetting, AgentTLSModeSetting, CACertsSetting} {
		if _, err := s.Value(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
