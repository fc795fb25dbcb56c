package rancher

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strings"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Values of AgentTLSModeSetting.
const (
	// TLSModeStrict trusts the CAs in CACertsSetting and no others.
	TLSModeStrict = "strict"
	// TLSModeSystemStore trusts the CAs of the system.
	TLSModeSystemStore = "system-store"
)

// Trust says which CAs may vouch for Rancher. It is comparable. The zero value trusts the CAs of
// the system.
type Trust struct {
	strict  bool
	cacerts string
}

// NewTrust returns the trust that follows from the values of AgentTLSModeSetting and CACertsSetting.
// Mode strict with empty cacerts trusts the CAs of the system: Rancher leaves cacerts empty when its
// certificate is publicly trusted, whatever the mode. A mode that Rancher does not know, and
// cacerts without a certificate in mode strict, are Problems.
func NewTrust(mode, cacerts string) (Trust, error) {
	t := Trust{strict: mode == TLSModeStrict, cacerts: cacerts}
	if !t.strict && mode != TLSModeSystemStore {
		return Trust{}, &outcome.Problem{
			Kind:    outcome.KindWait,
			Reason:  archelonv1.AgentTLSModeInvalidReason,
			Message: "Rancher's setting agent-tls-mode is neither strict nor system-store. Correct it in Rancher's global settings",
		}
	}
	if t.private() && !x509.NewCertPool().AppendCertsFromPEM([]byte(cacerts)) {
		return Trust{}, &outcome.Problem{
			Kind:   outcome.KindWait,
			Reason: archelonv1.CACertsInvalidReason,
			Message: "Rancher's setting cacerts has no PEM certificate. Correct the CA of Rancher's installation, " +
				"or set agent-tls-mode to system-store",
		}
	}
	return t, nil
}

// CAChecksum returns what Rancher gives its agents as CATTLE_CA_CHECKSUM: the SHA-256 of cacerts,
// ended by a newline, in hex; empty when cacerts is empty. It does not depend on the mode.
func (t Trust) CAChecksum() string {
	if t.cacerts == "" {
		return ""
	}
	cacerts := t.cacerts
	if !strings.HasSuffix(cacerts, "\n") {
		cacerts += "\n"
	}
	sum := sha256.Sum256([]byte(cacerts))
	return hex.EncodeToString(sum[:])
}

// Fingerprint identifies the set of trusted CAs: two trusts with equal fingerprints can share
// connections.
func (t Trust) Fingerprint() string {
	if !t.private() {
		return "system"
	}
	sum := sha256.Sum256([]byte(t.cacerts))
	return hex.EncodeToString(sum[:])
}

// private reports whether cacerts replaces the CAs of the system.
func (t Trust) private() bool {
	return t.strict && strings.TrimSpace(t.cacerts) != ""
}

// pool returns the trusted CAs; nil stands for those of the system.
func (t Trust) pool() *x509.CertPool {
	if !t.private() {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(t.cacerts))
	return pool
}
