package rancher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"

	"github.com/archelon-io/archelon/internal/outcome"
)

// DefaultTokenSecretName is the name of the Secret that holds the token of DefaultTokenName, in the same
// namespace, from Rancher 2.13.8, 2.14.4 and 2.15.0 on.
const DefaultTokenSecretName = "crt-token-" + DefaultTokenName

// Fingerprint digests the registration of a v3 Cluster as far as the cache knows it; it changes when the manifest URL
// does. Without a token that has a URL it returns the same Problems as Registration. It makes no request.
func (t *Tokens) Fingerprint(ctx context.Context, cluster string) (string, error) {
	crt, manifestURL, err := t.published(ctx, cluster)
	if err != nil {
		return "", err
	}
	// The plain form of the URL holds the token.
	sum := sha256.Sum256([]byte(string(crt.GetUID()) + manifestURL + statusField(crt, "tokenSecretName")))
	return hex.EncodeToString(sum[:]), nil
}

// FilledInFor reports whether Rancher filled in the registration token of a v3 Cluster with this server-url, as far as
// the cache knows. Without a token that has a URL it returns the same Problems as Registration. It makes no request.
func (t *Tokens) FilledInFor(ctx context.Context, cluster string, server *url.URL) (bool, error) {
	_, manifestURL, err := t.published(ctx, cluster)
	if err != nil {
		return false, err
	}
	return sameServer(manifestURL, server), nil
}

// SettingNames returns the settings of Rancher that decide how its agent is installed.
func SettingNames() []string {
	return append([]string{ServerURLSetting, CACertsSetting}, agentSettingNames()...)
}

// agentSettingNames returns those of SettingNames that stand in the agent's manifest and do not decide whether it is
// able to connect as far as an agent itself tells.
func agentSettingNames() []string {
	return []string{AgentTLSModeSetting, AgentImageSetting, RegistrySetting}
}

// AgentSettings returns the values of the settings that Rancher makes the agent's manifest from, beside its URL and CA.
// One that does not exist is empty. It makes no request.
func (s *Settings) AgentSettings(ctx context.Context) (map[string]string, error) {
	values := map[string]string{}
	for _, name := range agentSettingNames() {
		value, err := s.Value(ctx, name)
		if err != nil && !missing(err) {
			return nil, err
		}
		values[name] = value
	}
	return values, nil
}

// missing reports whether a setting does not exist.
func missing(err error) bool {
	problem, ok := errors.AsType[*outcome.Problem](err)
	return ok && problem.Kind == outcome.KindWait
}

// Fingerprint digests the settings of SettingNames. One that does not exist is not the same as an empty one: without
// cacerts nobody knows whom to trust, and an empty one trusts public authorities. It makes no request.
func (s *Settings) Fingerprint(ctx context.Context) (string, error) {
	hash := sha256.New()
	for _, name := range SettingNames() {
		value, err := s.Value(ctx, name)
		if err != nil && !missing(err) {
			return "", err
		}
		hash.Write(fmt.Appendf(nil, "%s=%t:%d:%s\n", name, err == nil, len(value), value))
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
